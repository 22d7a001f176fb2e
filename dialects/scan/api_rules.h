// What lists of APIs leave out: data, in YAML, each rule with its reason.
//
//   unsafe:                        # in no list: wrapping it breaks the program
//   - {name: "*.__getattribute__", reason: ...}
//   noise:                         # not in the default list
//   - {name: torch.testing, reason: ...}
//   keep:                          # in it, though a shorter name leaves it out
//   - {name: torch.testing.assert_close, reason: ...}
//
// A name stands for itself and for all within it, and may be a glob. Of several that fit,
// the longest counts.

#ifndef TORCHTRACE_DIALECTS_SCAN_API_RULES_H_
#define TORCHTRACE_DIALECTS_SCAN_API_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "serialize/apis/api_list.h"

namespace torchtrace {

class ApiRules {
 public:
  // Adds those of a text; errors name `name`, the line and what was expected there.
  absl::Status Add(std::string_view text, const std::string& name);

  // Takes out of the list what is unsafe.
  void DropUnsafe(ApiList* list) const;

  // The default list of a full one: what is public and no noise, by its public names.
  ApiList Default(const ApiList& full) const;

 private:
  struct Rule {
    std::string pattern;
    std::vector<std::string> kinds;  // only of these; empty: of all
    bool keep = false;
  };

  // The longest of `rules` that fits, or null.
  static const Rule* Find(const std::vector<Rule>& rules, const ApiEntry& entry);

  std::vector<Rule> unsafe_;
  std::vector<Rule> noise_;  // with those to keep
};

}  // namespace torchtrace

#endif  // TORCHTRACE_DIALECTS_SCAN_API_RULES_H_
