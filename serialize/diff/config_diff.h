// The configs of two traces: those that both have, and what differs.

#ifndef TORCHTRACE_SERIALIZE_DIFF_CONFIG_DIFF_H_
#define TORCHTRACE_SERIALIZE_DIFF_CONFIG_DIFF_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "serialize/base/matching.h"
#include "serialize/configs/dedup.h"
#include "serialize/configs/family.h"
#include "serialize/model/config.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// CommonConfigs numbers the configs of both traces of a diff as one set: equal
// ones, after coarsening, have one symbol, dense from 0. Owns what it shows.
// Memory goes with the configs. Not thread-safe.

// Which calls are compared, and as what.
struct DiffScope {
  Coarsening coarsening;
  GlobFilter filter;        // over API names
  std::vector<int> levels;  // empty: all

  bool Accepts(const ConfigHead& head) const;
};

class CommonConfigs {
 public:
  static constexpr uint32_t kLeftOut = UINT32_MAX;

  // By ConfigId; kLeftOut where the scope says so. `trace` was counted before.
  std::vector<uint32_t> Add(const Trace& trace, const DiffScope& scope);

  size_t size() const { return configs_.config_count(); }
  std::string_view identity(uint32_t symbol) const { return configs_.identity(symbol); }
  ConfigHead head(uint32_t symbol) const { return ReadConfigHead(identity(symbol)); }
  // In text form.
  std::string Text(uint32_t symbol) const;

  // Families, dense from 0, by symbol. Known once they were asked for.
  const std::vector<uint32_t>& Families();
  size_t family_count() const { return family_count_; }
  FamilyMember Member(uint32_t symbol) const;

 private:
  OneSpelling spelling_;
  ConfigTable configs_;
  std::vector<uint32_t> families_;
  size_t family_count_ = 0;
};

// The APIs and configs that two traces differ in, without regard to order: added,
// removed, changed in count; and of configs, those of one family (family.h) that
// went on one side and came on the other, as pairs of nearest ones. Counting is all
// the reading there is: memory and, but for it, time go with the configs.

// kChanged: a config of A went and one of its family, or one that differs in dtypes and devices too, came in B.
enum class Change : uint8_t { kRemoved, kAdded, kChanged, kCount };
inline constexpr int kChanges = 4;

// Of one trace, what the scope accepts.
struct SideTotals {
  uint64_t calls = 0;
  uint64_t apis = 0;
  uint64_t configs = 0;
};

struct ApiDifference {
  Change change = Change::kCount;  // never kChanged
  int level = 0;
  std::string api;
  uint64_t a_calls = 0;
  uint64_t b_calls = 0;
};

struct ConfigDifference {
  Change change = Change::kCount;
  uint32_t a = CommonConfigs::kLeftOut;  // symbols; kLeftOut where the side has none
  uint32_t b = CommonConfigs::kLeftOut;
  uint64_t a_calls = 0;
  uint64_t b_calls = 0;
};

struct ConfigDiff {
  SideTotals a;
  SideTotals b;
  std::vector<ApiDifference> apis;        // by level and name
  std::vector<ConfigDifference> configs;  // by level, API, family and numbers
  uint64_t same_apis = 0;
  uint64_t same_configs = 0;

  bool different() const { return !apis.empty() || !configs.empty(); }
};

// Fills in `configs`, which is empty before. Without `compare_counts` what both
// have is the same however often it was called.
absl::StatusOr<ConfigDiff> CompareConfigs(Trace* a, Trace* b, const DiffScope& scope, bool compare_counts,
                                          CommonConfigs* configs);

// What most differences come down to, as people say it: `batch 2 -> 4 in 312 configs of 45 APIs`.

struct CommonChange {
  // kBatch: a size, which is the first one of most tensors that it changes in. kValue: a number that is no size.
  // kCalls: b times as many calls where there were a, in lowest terms.
  enum Kind : uint8_t { kBatch, kSize, kDtype, kDevice, kValue, kCalls } kind = kSize;
  std::string a;
  std::string b;
  uint64_t configs = 0;
  uint64_t apis = 0;
  // Of a size: what changed by the same factor (256 -> 512 where a batch of 2 became 4), the most frequent first.
  struct Multiple {
    std::string a;
    std::string b;
    uint64_t configs = 0;
  };
  std::vector<Multiple> multiples;
};

struct ChangeSummary {
  std::vector<CommonChange> changes;  // by kind, the most frequent first; each of several configs
  // By row of ConfigDiff::apis and ::configs: that the changes above are all that it differs in.
  std::vector<bool> explains_api;
  std::vector<bool> explains_config;
};

ChangeSummary SummarizeChanges(const ConfigDiff& diff, const CommonConfigs& configs);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_CONFIG_DIFF_H_
