// Calls of a trace as a program: a script, or a module that makes a torch.fx.GraphModule.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PROGRAM_EXPORT_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PROGRAM_EXPORT_H_

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "serialize/export/exporter.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"

namespace torchtrace {

// Writes the outermost calls of the selection, at its level or, if it names none, at the first of the levels 1, 0, 2
// and 4 that the trace has. Adds to `notes` what was left out. Aborted when `out` fails.
absl::Status WritePythonProgram(Trace* trace, std::string_view label, CallSelection selection, std::ostream* out,
                                std::vector<std::string>* notes);
absl::Status WriteFxProgram(Trace* trace, std::string_view label, CallSelection selection, std::ostream* out,
                            std::vector<std::string>* notes);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PROGRAM_EXPORT_H_
