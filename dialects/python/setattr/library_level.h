// Level 0 of libraries that are no framework's, from the program's start: nothing of a
// framework is needed. A framework's own hook, installed later, records and describes all calls
// of level 0 from then on.

#ifndef TORCHTRACE_DIALECTS_PYTHON_SETATTR_LIBRARY_LEVEL_H_
#define TORCHTRACE_DIALECTS_PYTHON_SETATTR_LIBRARY_LEVEL_H_

#include <memory>
#include <string>
#include <vector>

#include "tracer/framework_dialect.h"

namespace torchtrace::python_dialect {

std::unique_ptr<TracingHook> MakeLibraryHook(std::vector<std::string> names, const RecordingOptions& options);

}  // namespace torchtrace::python_dialect

#endif  // TORCHTRACE_DIALECTS_PYTHON_SETATTR_LIBRARY_LEVEL_H_
