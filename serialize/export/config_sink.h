// ConfigSink writes configurations with their counts in one output format: what
// `dedup -o` and `export` write through. One file per format implements it.
//
//   absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(format, &out);
//   (*sink)->Add({.identity = trace.identity(config), .calls = calls});
//   (*sink)->Finish();
//
// Rows are written in the order added; torchbench and tritonbench group them by
// operator and write at Finish. Memory goes with the configurations at most.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_
#define TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/model/config.h"

namespace torchtrace {

struct ConfigRow {
  std::string_view identity = {};  // config.h; valid during the call
  std::string_view facets = {};    // empty: none
  uint64_t calls = 1;
  int64_t time_ns = -1;  // of all its calls; -1: not known
  // Where it comes from; empty: not asked for, or several.
  std::string_view trace = {};  // path or label
  std::string_view host = {};
  int64_t pid = -1;
  int64_t rank = -1;
};

enum class ExportFormat : uint8_t { kText, kYaml, kJson, kJsonl, kCsv, kTorchBench, kTritonBench, kPaddle, kParquet };

// `text`, `torchbench`, ...; InvalidArgument with the choices and the nearest one.
absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view text);
// By the file name's suffix (.txt .yaml .yml .json .jsonl .csv .parquet).
absl::StatusOr<ExportFormat> ExportFormatOf(std::string_view file_name);
// The inverse of ParseExportFormat.
std::string_view ExportFormatName(ExportFormat format);
// "text, yaml, ...", for help and messages.
std::string ExportFormatChoices();
// A terminal can't show it.
bool IsBinary(ExportFormat format);
// Has columns for a row's trace, host, pid and rank; what hasn't shows each config once.
bool KeepsProvenance(ExportFormat format);

class ConfigSink {
 public:
  virtual ~ConfigSink() = default;
  virtual absl::Status Add(const ConfigRow& row) = 0;
  // Aborted when the stream failed, as Add.
  virtual absl::Status Finish() = 0;
  // What the format can't hold and was left out, a sentence each, for the user to be
  // told. Complete once Finish has returned.
  virtual std::vector<std::string> notes() const { return {}; }
};

struct SinkOptions {
  // text: each line begins with how often it was called. The other formats say it
  // anyway, or (paddle) never.
  bool counts = false;
  // tritonbench, parquet: what the file says about itself.
  std::vector<std::pair<std::string, std::string>> metadata = {};
  // parquet: the environment that has pyarrow, a python or its folder; empty: look for one
  // (parquet_module_loader.h).
  std::string python = {};
};

// `out` must outlive it. kParquet loads the module that carries Arrow.
absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(ExportFormat format, std::ostream* out,
                                                           const SinkOptions& options = {});

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_
