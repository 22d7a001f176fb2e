// The report of `torchtrace top`: what the processes of a run do, between two readings of their logs.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_TOP_H_
#define TORCHTRACE_SERIALIZE_REPORTS_TOP_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/base/choices.h"
#include "serialize/forms/call_labels.h"
#include "serialize/trace/live.h"

namespace torchtrace {

// Numbers APIs and modules for LiveLogs. Memory grows with their names.
class LiveNames {
 public:
  CallName Of(std::string_view identity);

  // `torch.add`, with several levels `L1 torch.add`.
  std::string Api(uint32_t name) const;
  // `layers.0 (Linear)`, with several models `Net_0.layers.0 (Linear)`.
  std::string Module(uint32_t name) const;
  int LevelOf(uint32_t api) const { return apis_[api].level; }
  const std::string& NameOf(uint32_t api) const { return apis_[api].name; }
  bool has_modules() const { return !modules_.empty(); }
  bool has_levels() const { return levels_.size() > 1; }

 private:
  struct NamedApi {
    int level;
    std::string name;
  };

  std::vector<NamedApi> apis_;
  std::vector<ModuleLabel> modules_;
  absl::flat_hash_map<std::string, uint32_t> api_numbers_;     // by level and name
  absl::flat_hash_map<std::string, uint32_t> module_numbers_;  // by whole text
  std::set<int> levels_;
  SeveralModels several_models_;
};

enum class TopCallSort : uint8_t { kSelf, kCalls, kName };
enum class TopProcessSort : uint8_t { kRank, kCalls, kOpen, kLog };

struct TopOptions {
  std::string title;  // of the trace
  TopCallSort calls_by = TopCallSort::kSelf;
  TopProcessSort processes_by = TopProcessSort::kRank;
  bool modules = false;  // on a screen: in place of APIs
  // Only processes whose name contains it, and their calls; if there is none, only calls whose name contains it.
  std::string filter = {};
  size_t width = 0;  // of a line, in characters; 0: unlimited
  bool color = false;
};

// For plain output: a line with totals, the processes, the calls with the most self time, and the modules.
std::string TopText(const LiveReading& reading, const LiveNames& names, const TopOptions& options);

// At most so many lines for a screen: of its tables what fits.
std::vector<std::string> TopLines(const LiveReading& reading, const LiveNames& names, const TopOptions& options,
                                  size_t height);

// Everything: docs/TOP.md lists the keys.
nlohmann::ordered_json TopJson(const LiveReading& reading, const LiveNames& names);

// Whether a process may still add to its log.
bool MayGoOn(const LiveReading& reading);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_TOP_H_
