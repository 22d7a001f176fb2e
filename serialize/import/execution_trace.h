// Imports what PyTorch's ExecutionTraceObserver writes (also known as Chakra
// host traces), schemas 1.0.1 to 1.1.1. Its operators become level-2 calls,
// composite ones and those that they call included; nodes that are no operators
// (threads, labels, autograd's nodes) are left out, and what stands in them moves up.
// After the first Scan a call takes 24 bytes, whatever the file.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_EXECUTION_TRACE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_EXECUTION_TRACE_H_

#include <memory>
#include <string_view>

#include "serialize/import/call_source.h"
#include "serialize/import/json_stream.h"

namespace torchtrace {

// By a file's first bytes.
bool LooksLikeExecutionTrace(std::string_view head);

// The file is read by the first Scan.
std::unique_ptr<CallSource> MakeExecutionTraceSource(JsonFile file);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_EXECUTION_TRACE_H_
