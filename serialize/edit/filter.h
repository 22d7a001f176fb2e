// Filter writes some calls of a trace into another one, as `torchtrace filter` does.
// Their processes, threads and times stay what they were; their numbers are new, and a
// call stands in the innermost kept call that it stood in.
//
// One reading; memory goes with configurations, threads and open calls. Only a
// condition on how calls end (duration, raised) needs another reading before, and
// a bit for each call.

#ifndef TORCHTRACE_SERIALIZE_EDIT_FILTER_H_
#define TORCHTRACE_SERIALIZE_EDIT_FILTER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/base/glob.h"
#include "serialize/base/number_set.h"
#include "serialize/edit/trace_writer.h"
#include "serialize/trace/trace.h"
#include "serialize/where/where.h"

namespace torchtrace {

// Kept is what passes all of these.
struct FilterOptions {
  GlobFilter filter;                 // over API names
  std::vector<int> levels;           // empty: all
  std::optional<NumberSet> calls;    // numbers of the trace that is read
  std::optional<NumberSet> ranks;    // processes without a rank have none of these
  std::vector<std::string> threads;  // numbers in their processes, or globs over names; empty: all
  std::optional<Where> where;
  // Keeps the calls around a kept call as well, whatever they are.
  bool with_parents = false;
  // What to say of the filtering in the new trace's metadata: an entry of the list
  // `filtered`, to which earlier filterings belong.
  nlohmann::json description = nlohmann::json::object();
};

struct FilterReport {
  uint64_t read = 0;     // calls
  uint64_t kept = 0;     // of them, parents included
  uint64_t parents = 0;  // kept only for the calls in them
};

// Reads `trace` and writes into `writer`, which is not finished. An entry whose end is missing
// though its thread went on gets one that says so: it raised `torchtrace.EndIsLost`.
absl::StatusOr<FilterReport> FilterTrace(Trace* trace, const FilterOptions& options, TraceWriter* writer);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EDIT_FILTER_H_
