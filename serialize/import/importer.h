// An importer reads one format of another tool, or of ours other than the log.
// importers.cc lists them; a new one is a file with a CallSource and a line there.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_
#define TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/import/call_source.h"
#include "serialize/import/input_file.h"

namespace torchtrace {

inline constexpr size_t kFileHeadBytes = 4096;

// What a format is told by.
struct FileHead {
  std::string_view bytes;      // the first kFileHeadBytes, or all of a smaller file; never empty
  std::string_view file_name;  // without folders; empty for standard input
};

struct Importer {
  const char* name;      // of tests and fuzzers: "torchbench"
  const char* expected;  // as errors list it: "TorchBench operator inputs (Operator: ...)"
  bool (*sniff)(const FileHead& head);
  absl::StatusOr<std::unique_ptr<CallSource>> (*open)(std::unique_ptr<InputFile> file);
};

// In the order in which they are asked: first those whose first bytes leave no doubt.
const std::vector<const Importer*>& Importers();

// Null when there is none of that name.
const Importer* FindImporter(std::string_view name);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_
