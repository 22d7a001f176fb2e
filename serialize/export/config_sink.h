// ConfigSink writes configurations with their counts in one output format: what
// `dedup -o` and `export` write through. One file per format implements it.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_
#define TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/config.h"

namespace torchtrace {

struct ConfigRow {
  std::string_view identity;  // config.h; valid during the call
  std::string_view facets;    // empty: none
  uint64_t calls = 1;
  int64_t time_ns = -1;  // of all its calls; -1: not known
  // Where it comes from; empty: not asked for, or several.
  std::string_view trace;  // path or label
  std::string_view host;
  int64_t pid = -1;
  int64_t rank = -1;
};

enum class ExportFormat : uint8_t { kText, kYaml, kJson, kJsonl, kCsv, kTorchBench, kTritonBench, kPaddle, kParquet };

// `text`, `torchbench`, ...; InvalidArgument with the choices and the nearest one.
absl::StatusOr<ExportFormat> ParseExportFormat(std::string_view text);
// By the file name's suffix (.txt .yaml .yml .json .jsonl .csv .parquet).
absl::StatusOr<ExportFormat> ExportFormatOf(std::string_view file_name);

class ConfigSink {
 public:
  virtual ~ConfigSink() = default;
  virtual absl::Status Add(const ConfigRow& row) = 0;
  virtual absl::Status Finish() = 0;
};

// `out` must outlive it. kParquet loads the module that carries Arrow.
absl::StatusOr<std::unique_ptr<ConfigSink>> MakeConfigSink(ExportFormat format, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_CONFIG_SINK_H_
