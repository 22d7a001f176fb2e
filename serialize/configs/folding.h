// Rules for which differences between configs don't matter for a purpose: a list for tests needs only one of them.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_FOLDING_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_FOLDING_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/base/matching.h"

namespace torchtrace {

// A rule of test_folds.yaml, which documents the parts.
struct FoldRule {
  std::string name;
  std::string because;
  GlobFilter apis;
  std::vector<size_t> places;  // of arguments; if there are no names either: all arguments
  std::vector<std::string> names;
  bool numbers = false;
  bool sizes = false;
};

// Errors name the line and what was expected there.
absl::StatusOr<std::vector<FoldRule>> ParseFoldRules(const std::string& yaml);

// Not thread-safe: caches the rule for each API.
class Folding {
 public:
  // "tests".
  static std::vector<std::string> Purposes();
  // The rules of a purpose. InvalidArgument with the choices.
  static absl::StatusOr<Folding> For(std::string_view purpose);

  struct Folded {
    size_t rule = 0;  // index into rules()
    std::string key;  // an identity, equal for configs that become one
  };
  // nullopt if there is no rule for the API.
  std::optional<Folded> Fold(std::string_view identity);

  const std::vector<FoldRule>& rules() const { return rules_; }

 private:
  explicit Folding(std::vector<FoldRule> rules) : rules_(std::move(rules)) {}
  // rules().size(): none.
  size_t RuleFor(std::string_view api);

  std::vector<FoldRule> rules_;
  absl::flat_hash_map<std::string, size_t> rule_of_;  // by API
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_FOLDING_H_
