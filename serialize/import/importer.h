// What reads a format of another tool, and the list of those that there are. A new format is a file with an
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

// An importer reads one format of another tool, or of ours other than the log.
// importers.cc lists them; a new one is a file with a CallSource and a line there.

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

// What a list of operators' inputs (TorchBench's, TritonBench's) doesn't tell of calls.
struct OperatorInputGaps {
  uint64_t synthetic = 0;  // configurations without a count, which is 0 there
  uint64_t numbers = 0;    // configurations of which only sizes are told (named_sizes.h)

  // `file`: its name. `zero`: as it spells that count, "cnt: 0".
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

// Calls as JSON lines: what `torchtrace dump --format jsonl` writes, with nesting,
// times, threads and outcomes; or any lines with {api, args, kwargs}.

extern const Importer kCallLinesImporter;

// Rows of calls or configurations with a header: the CSV of `torchtrace export` and `dedup`.

extern const Importer kCallTableImporter;

// Imports what PyTorch's profiler writes (Kineto's flavour of Chrome's trace
// events): its cpu_op events become level-2 calls with times, nested as their
// times are. Python functions, annotations, kernels and autograd's own events
// are left out. After the first Scan a call takes 32 bytes, whatever the file.

// By a file's first bytes.
bool LooksLikeChromeTrace(std::string_view head);

// The file is read by the first Scan.
std::unique_ptr<CallSource> MakeChromeTraceSource(JsonFile file);

// Imports what PyTorch's ExecutionTraceObserver writes (also known as Chakra
// host traces), schemas 1.0.1 to 1.1.1. Its operators become level-2 calls,
// composite ones and those that they call included; nodes that are no operators
// (threads, labels, autograd's nodes) are left out, and what stands in them moves up.
// Which tensor is which and what calls returned is told as `run --ids --outputs` records it.
// After the first Scan a call takes 48 bytes and some 4 for each of its tensors, whatever the file.

// By a file's first bytes.
bool LooksLikeExecutionTrace(std::string_view head);

// The file is read by the first Scan.
std::unique_ptr<CallSource> MakeExecutionTraceSource(JsonFile file);

// Lists of calls in text, one a line: our api_trace.txt and api_configs.txt, those
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
// api_tracer's api_trace.yaml (one document a call). Each item is parsed once
// by yaml-cpp and then known by its text; memory goes with configurations.

extern const Importer kYamlImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_IMPORTER_H_
