// Imports what PyTorch's profiler writes (Kineto's flavour of Chrome's trace
// events): its cpu_op events become level-2 calls with times, nested as their
// times are. Python functions, annotations, kernels and autograd's own events
// are left out. After the first Scan a call takes 32 bytes, whatever the file.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_CHROME_TRACE_H_
#define TORCHTRACE_SERIALIZE_IMPORT_CHROME_TRACE_H_

#include <memory>
#include <string_view>

#include "serialize/import/call_source.h"
#include "serialize/import/json_stream.h"

namespace torchtrace {

// By a file's first bytes.
bool LooksLikeChromeTrace(std::string_view head);

// The file is read by the first Scan.
std::unique_ptr<CallSource> MakeChromeTraceSource(JsonFile file);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_CHROME_TRACE_H_
