// libtorchtrace_export.so: the verbs that export, for a Python to run (export_in_python.h).

#include <cstddef>
#include <string>
#include <vector>

#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/export_in_python.h"
#include "serialize/export/parquet_table.h"

// Runs the verb `words[0]` with the others as its arguments, and returns its exit code.
extern "C" __attribute__((visibility("default"))) int torchtrace_export(const char* const* words, size_t count,
                                                                        torchtrace::ParquetRowsFunction write_rows) {
  using torchtrace::Command;
  torchtrace::CleanUpOnSignals();  // which were held until here
  torchtrace::MakeWritesFail();
  torchtrace::EndWithoutMemory();
  torchtrace::SetInPython();
  torchtrace::SetParquetRowsFunction(write_rows);
  for (const Command* const verb : {&torchtrace::kExportCommand, &torchtrace::kDedupCommand}) {
    if (words[0] == std::string(verb->name)) return verb->run(std::vector<std::string>(words + 1, words + count));
  }
  return torchtrace::kExitTrouble;
}
