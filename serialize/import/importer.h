// Importers, which read formats of other tools, and the list of them. A new format is a file with an
// Importer, declared here and listed in importers.cc.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_
#define TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/input_file.h"
#include "serialize/import/json_stream.h"

namespace torchtrace {

inline constexpr size_t kFileHeadBytes = 4096;

// The part of a file by which its format is recognized.
struct FileHead {
  std::string_view bytes;      // the first kFileHeadBytes, or all of a smaller file; never empty
  std::string_view file_name;  // without folders; empty for standard input
};

// An importer reads one format of another tool, or one of ours other than the log.
struct Importer {
  const char* name;      // for tests and fuzzers: "torchbench"
  const char* expected;  // for errors: "TorchBench operator inputs (Operator: ...)"
  bool (*sniff)(const FileHead& head);
  absl::StatusOr<std::unique_ptr<CallSource>> (*open)(std::unique_ptr<InputFile> file);
};

// In the order in which they are tried: first those whose first bytes are unambiguous.
const std::vector<const Importer*>& Importers();

// Null for an unknown name.
const Importer* FindImporter(std::string_view name);

// What a list of operator inputs (TorchBench's, TritonBench's) doesn't contain.
struct OperatorInputGaps {
  uint64_t synthetic = 0;  // configurations with count 0, which means none
  uint64_t numbers = 0;    // configurations with sizes only (named_sizes.h)

  // `file`: its name. `zero`: its spelling of count 0, "cnt: 0".
  std::vector<std::string> Notes(const std::string& file, const char* zero) const {
    std::vector<std::string> notes = {absl::StrCat(
        file, " has counts without order, times, outcomes and nesting, and no devices of tensors: cpu is shown")};
    if (synthetic > 0) {
      notes.push_back(absl::StrCat(Counted(synthetic, "configuration", "configurations"), " with ", zero,
                                   " (synthetic): each counts as one call"));
    }
    if (numbers > 0) {
      notes.push_back(absl::StrCat(Counted(numbers, "configuration", "configurations"),
                                   " with sizes by name: which tensors have them isn't known"));
    }
    return notes;
  }
};

// Calls as JSON lines: the output of `torchtrace dump --format jsonl`, with nesting,
// times, threads and outcomes; or any lines with {api, args, kwargs}.
extern const Importer kCallLinesImporter;

// Rows of calls or configurations with a header: the CSV of `torchtrace export` and `dedup`.
extern const Importer kCallTableImporter;

// By a file's first bytes.
bool LooksLikeChromeTrace(std::string_view head);

// Imports the output of PyTorch's profiler (Kineto's variant of Chrome's trace
// events): its cpu_op events become level-2 calls with times, nested by their
// times. Python functions, annotations, kernels and autograd's own events
// are left out. The first Scan reads the file; after it a call takes 32 bytes of memory.
std::unique_ptr<CallSource> MakeChromeTraceSource(JsonFile file);

// By a file's first bytes.
bool LooksLikeExecutionTrace(std::string_view head);

// Imports the output of PyTorch's ExecutionTraceObserver (also known as Chakra
// host traces), schemas 1.0.1 to 1.1.1. Its operators become level-2 calls,
// including composite ones and those that they call; nodes that are not operators
// (threads, labels, autograd's nodes) are left out, and their children move up.
// Tensor identities and results become what `run --ids --outputs` records.
// The first Scan reads the file; after it a call takes 48 bytes of memory, plus about 4 per tensor.
std::unique_ptr<CallSource> MakeExecutionTraceSource(JsonFile file);

// Lists of calls in text, one per line: our api_trace.txt and api_configs.txt, those
// of api_tracer, and PaddleAPITest's files of configurations.
extern const Importer kTextImporter;

// TorchBench's operator inputs (OperatorInputsMode), and BackendBench's variant:
//   Operator: aten.addmm.default
//   cnt: 48, ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})
extern const Importer kTorchBenchImporter;

// TritonBench's operator inputs:
//   {"aten.add.Tensor": [{"count": 1, "inputs": "((T([8], f32), 1), {})"}], "metadata": {}}
extern const Importer kTritonBenchImporter;

// Lists of calls in YAML: our api_trace.yaml and api_configs.yaml (one list), and
// api_tracer's api_trace.yaml (one document per call). yaml-cpp parses each distinct
// item once; memory grows with the configurations.
extern const Importer kYamlImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_
