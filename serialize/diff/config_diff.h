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

// Which calls are compared, and what is ignored in them.
struct DiffScope {
  Coarsening coarsening;
  GlobFilter filter;        // over API names
  std::vector<int> levels;  // empty: all
  // A module that torch.compile wraps is the module itself: `_orig_mod` and models are left out of its path.
  bool through_compilation = false;

  bool Accepts(const ConfigHead& head) const;
};

// Numbers the configs of both traces of a diff as one set: configs that are equal after coarsening share a symbol,
// dense from 0. Owns the bytes that it returns views of. Memory grows with the configs. Not thread-safe.
class CommonConfigs {
 public:
  static constexpr uint32_t kLeftOut = UINT32_MAX;

  // The symbols by ConfigId; kLeftOut for configs outside of the scope. Call trace.Count() first.
  std::vector<uint32_t> Add(const Trace& trace, const DiffScope& scope);

  size_t size() const { return configs_.config_count(); }
  std::string_view identity(uint32_t symbol) const { return configs_.identity(symbol); }
  ConfigHead head(uint32_t symbol) const { return ReadConfigHead(identity(symbol)); }
  // In text form.
  std::string Text(uint32_t symbol) const;

  // Family numbers, dense from 0, by symbol. The first call computes them.
  const std::vector<uint32_t>& Families();
  size_t family_count() const { return family_count_; }
  FamilyMember Member(uint32_t symbol) const;

 private:
  OneSpelling spelling_;
  ConfigTable configs_;
  std::vector<uint32_t> families_;
  size_t family_count_ = 0;
};

// The symbol of a call: kLeftOut if its config is new, as when the file has changed since it was counted.
inline uint32_t SymbolOf(const CallRecord& call, const std::vector<uint32_t>& symbols) {
  return call.config < symbols.size() ? symbols[call.config] : CommonConfigs::kLeftOut;
}

// kChanged: a config that only A has, paired with one that only B has: of the same family (family.h), or one that also
// differs in dtypes and devices.
enum class Change : uint8_t { kRemoved, kAdded, kChanged, kCount };
inline constexpr int kChanges = 4;

// The totals of one trace within the scope.
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

// The APIs and configs that two traces differ in, regardless of order.
struct ConfigDiff {
  SideTotals a;
  SideTotals b;
  std::vector<ApiDifference> apis;        // by level and name
  std::vector<ConfigDifference> configs;  // by level, API, family and numbers
  uint64_t same_apis = 0;
  uint64_t same_configs = 0;

  bool different() const { return !apis.empty() || !configs.empty(); }
};

// Fills `configs`, which must be empty. Without `compare_counts`, APIs and configs that both traces have are the same,
// however often each was called. Only counts the traces; beyond that, time and memory grow with the configs.
absl::StatusOr<ConfigDiff> CompareConfigs(Trace* a, Trace* b, const DiffScope& scope, bool compare_counts,
                                          CommonConfigs* configs);

// A change that several differences share, for a summary such as `batch 2 -> 4 in 312 configs of 45 APIs`.
struct CommonChange {
  // kBatch: a size that is the first one of most tensors in which it changes. kValue: a number that is not a size.
  // kCalls: the ratio of the numbers of calls, in lowest terms.
  enum Kind : uint8_t { kBatch, kSize, kDtype, kDevice, kValue, kCalls } kind = kSize;
  std::string a;
  std::string b;
  uint64_t configs = 0;
  uint64_t apis = 0;
  // Of a size: other sizes that changed by the same factor (256 -> 512 where a batch of 2 became 4), the most frequent
  // first.
  struct Multiple {
    std::string a;
    std::string b;
    uint64_t configs = 0;
  };
  std::vector<Multiple> multiples;
};

struct ChangeSummary {
  std::vector<CommonChange> changes;  // by kind, the most frequent first; each of several configs
  // For each row of ConfigDiff::apis and ::configs: whether the changes above are its only differences.
  std::vector<bool> explains_api;
  std::vector<bool> explains_config;
};

ChangeSummary SummarizeChanges(const ConfigDiff& diff, const CommonConfigs& configs);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_CONFIG_DIFF_H_
