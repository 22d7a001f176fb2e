// Formats that a Python library writes: `export` and `dedup` continue in a Python that has it, in the same process. The
// executable execs that Python, which loads the library of the verbs (cmd/cli/installation.h) and calls them
// (verbs_library.cc).
//
// So no data passes between processes, Ctrl-C and the exit code are the verb's own, and the parent process waits for
// the process that it started.

#ifndef TORCHTRACE_CMD_EXPORT_IN_PYTHON_H_
#define TORCHTRACE_CMD_EXPORT_IN_PYTHON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/cli/options.h"
#include "serialize/export/exporter.h"

namespace torchtrace {

// The help of --python.
inline constexpr char kExportPythonText[] =
    "parquet: the environment that has pyarrow, by its python or its folder (default: as `run` finds one)";

// Whether the format needs a Python and this process is not that Python yet.
bool NeedsPython(const Exporter& exporter);

// Starts the verb again in the Python that `python` names, or that `run` would find. Returns only when that fails:
// prints why and returns the exit code. The arguments have been checked; no file is open.
int ContinueInPython(const Exporter& exporter, const std::string& python, const Command& verb,
                     const std::vector<std::string>& args);

// The error of a writer in this Python, with one that has what it lacks: a Python that recorded one of the traces. It
// is only named: what a trace names is not run.
absl::Status WithPythonOfTraces(const absl::Status& error, const std::vector<std::string>& traces);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_EXPORT_IN_PYTHON_H_
