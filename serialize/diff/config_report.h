// `torchtrace diff`: the report of what config_diff.h finds, as text, JSON or
// Markdown. As text, two traces without a difference are reported in no line,
// unless the summary was asked for.
//
// JSON: {"different", "ignored": [names], "a": {"trace", "calls", "apis",
// "configs"}, "b": the same, "summary": {"apis": {"removed", "added", "count",
// "same"}, "configs": {the same and "changed"}}, "apis": [{"change", "level",
// "api", "a_calls", "b_calls"}], "configs": [{the same, "a", "b": lines of text,
// "differences": [{"a", "b"}]}], "left_out": {"apis", "configs"}}

#ifndef TORCHTRACE_SERIALIZE_DIFF_CONFIG_REPORT_H_
#define TORCHTRACE_SERIALIZE_DIFF_CONFIG_REPORT_H_

#include <ostream>

#include "absl/status/statusor.h"
#include "serialize/diff/report_parts.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Returns whether they differ, also when `out` fails: its state tells that.
absl::StatusOr<bool> WriteConfigDiff(Trace* a, Trace* b, const DiffOptions& options, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_CONFIG_REPORT_H_
