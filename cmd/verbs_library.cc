// libtorchtrace_verbs.so: the verbs for a process that is a Python. The Python calls them to export
// (export_in_python.h), or they replace its main() to run a program (cmd/run/preload.h).

#include <cstddef>
#include <string>
#include <vector>

#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/run/preload.h"
#include "serialize/export/parquet_table.h"

extern "C" {

int torchtrace_main(int argc, char** argv) {
  return torchtrace::RunCommandLine(std::vector<std::string>(argv + (argc > 0), argv + argc));
}

// Runs the verb `words[0]` with the others as its arguments, and returns its exit code.
int torchtrace_export(const char* const* words, size_t count, torchtrace::ParquetRowsFunction write_rows) {
  torchtrace::CleanUpOnSignals();  // HoldEndingSignals blocked them
  torchtrace::SetParquetRowsFunction(write_rows);
  return torchtrace::RunCommandLine(std::vector<std::string>(words, words + count));
}

}  // extern "C"
