// CommonConfigs numbers the configs of both traces of a diff as one set: equal
// ones, after coarsening, have one symbol, dense from 0. Owns what it shows.
// Memory goes with the configs. Not thread-safe.

#ifndef TORCHTRACE_SERIALIZE_DIFF_COMMON_CONFIGS_H_
#define TORCHTRACE_SERIALIZE_DIFF_COMMON_CONFIGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "serialize/base/glob.h"
#include "serialize/configs/coarsen.h"
#include "serialize/configs/family.h"
#include "serialize/model/config.h"
#include "serialize/trace/config_table.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

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
  ConfigTable configs_;
  std::vector<uint32_t> families_;
  size_t family_count_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_COMMON_CONFIGS_H_
