// The gates of `torchtrace diff --fail-on`: what must not differ between two traces, checked, a sentence for each.

#ifndef TORCHTRACE_SERIALIZE_DIFF_GATES_H_
#define TORCHTRACE_SERIALIZE_DIFF_GATES_H_

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/config_diff.h"
#include "serialize/diff/time_diff.h"
#include "serialize/reports/repeated_stats.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

enum class GateKind : uint8_t { kAddedApi, kAddedConfig, kRemovedApi, kRemovedConfig, kSlower, kMemory, kFlops };

struct Gate {
  GateKind kind = GateKind::kAddedApi;
  double percent = 0;  // kSlower and later: more than this is too much
  std::string text;    // as it was given: `slower=10%`

  // Whether it needs a comparison of times, and not only of configs.
  bool of_times() const { return kind >= GateKind::kSlower; }
};

// From lists with commas. InvalidArgument with the choices for what is none, or the same gate twice.
absl::StatusOr<std::vector<Gate>> ParseGates(const std::vector<std::string>& lists);
// "added-api", ..., "slower=10%".
std::vector<std::string> GateExamples();

struct GateResult {
  std::string gate = {};  // Gate::text
  bool fired = false;
  std::string sentence = {};           // why it fired
  std::vector<std::string> more = {};  // the other rows that made it fire, a line each
};

// The names of both traces for errors, and of A and B in what is incomplete.
struct GatedTrace {
  const Trace* trace = nullptr;
  std::string name;
};

struct GateResults {
  std::vector<GateResult> gates;
  std::vector<std::string> incomplete;  // a sentence for each trace that lacks something: gates don't see that

  bool fired() const;
};

// Those of configs. A config that is paired with a similar one counts as removed and added. FailedPrecondition if no
// call of either trace is compared.
absl::Status CheckConfigGates(const std::vector<Gate>& gates, const ConfigDiff& diff, const CommonConfigs& configs,
                              GateResults* results);

// Those of times, for each row that both traces have and for all calls together. FailedPrecondition, with what to
// record, if a trace lacks what a gate compares.
absl::Status CheckTimeGates(const std::vector<Gate>& gates, const RepeatedStats& stats, const TimeDiff& diff,
                            const GatedTrace& a, const GatedTrace& b, GateResults* results);

// Fills in `incomplete`. Read the traces first.
void FindIncomplete(const GatedTrace& a, const GatedTrace& b, GateResults* results);

// Without gates they write nothing.
void WriteGatesText(const GateResults& results, bool color, std::ostream* out);
void WriteGatesMarkdown(const GateResults& results, std::ostream* out);
// A test suite with a test case for each gate.
void WriteGatesJunit(const GateResults& results, std::string_view a_name, std::string_view b_name, std::ostream* out);
// Of `"gates"` and `"incomplete"`.
nlohmann::ordered_json GatesJson(const GateResults& results);
nlohmann::ordered_json IncompleteJson(const GateResults& results);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_GATES_H_
