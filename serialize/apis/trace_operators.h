// The operators that PyTorch had in a traced process: names kept in the metadata of a log
// (docs/FORMAT.md, `operators`), once in a trace for each version of PyTorch.

#ifndef TORCHTRACE_SERIALIZE_APIS_TRACE_OPERATORS_H_
#define TORCHTRACE_SERIALIZE_APIS_TRACE_OPERATORS_H_

#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/apis/api_list.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Those that the processes of a trace tell of.
std::set<std::string> TorchVersions(const Trace& trace);

// The value of the key for a process, which another process of the trace with the same
// version may have; null when none has.
const nlohmann::json* FindOperators(const Trace& trace, const ProcessInfo& process);

// Adds the operators of `space` (`aten`) that a trace tells of to a list, each once and in
// their order, and the version of PyTorch. NotFound, with `name` for the trace, when it
// tells of none.
absl::Status AddOperators(const Trace& trace, std::string_view name, std::string_view space, ApiList* list);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_TRACE_OPERATORS_H_
