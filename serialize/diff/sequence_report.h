// `torchtrace diff --sequence`: the report of what sequence_diff.h finds, as text,
// JSON or Markdown. Calls have the numbers that `torchtrace dump` shows. As text,
// two traces without a difference are reported in no line, unless the summary was
// asked for.
//
// JSON: {"different", "ignored": [names], "shortest", "a": {"trace", "calls"}, "b":
// the same, "summary": {"same", "changed", "removed", "added", "hunks", "sequences",
// "sequences_that_differ"}, "first_divergence": {"sequence": index, "a_call",
// "b_call", "inside": [{"call", "config"}], "inside_of": "a" or "b"} or null,
// "sequences": [{"a_thread", "b_thread", "level", "a_calls", "b_calls", "same",
// "changed", "removed", "added", "hunks_found", "hunks": [{"a_first", "a_count",
// "b_first", "b_count", "inside", "inside_of", "lines": [{"change", "depth",
// "a_call", "b_call", "config", or "a" and "b"}], "lines_left_out"}]}]}
// Sequences that are the same have no "hunks".

#ifndef TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_REPORT_H_
#define TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_REPORT_H_

#include <ostream>

#include "absl/status/statusor.h"
#include "serialize/diff/report_parts.h"
#include "serialize/diff/sequence_diff.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Returns whether they differ, also when `out` fails: its state tells that.
absl::StatusOr<bool> WriteSequenceDiff(Trace* a, Trace* b, const DiffOptions& options,
                                       const SequenceOptions& sequence_options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_SEQUENCE_REPORT_H_
