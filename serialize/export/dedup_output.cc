#include "serialize/export/dedup_output.h"

#include <memory>

namespace torchtrace {
namespace {

bool IsReplayed(ExportFormat format) {
  return format == ExportFormat::kTorchBench || format == ExportFormat::kTritonBench || format == ExportFormat::kPaddle;
}

}  // namespace

bool HoldsProvenance(ExportFormat format) { return !IsReplayed(format); }

bool ShowsLevels(ExportFormat format) {
  // TorchBench and TritonBench take one level only: calls of another must not be added to it.
  return format != ExportFormat::kText && format != ExportFormat::kPaddle;
}

absl::StatusOr<std::vector<std::string>> WriteDedup(const std::vector<DedupConfig>& configs,
                                                    const std::vector<DedupSource>& sources, const DedupOutput& output,
                                                    std::ostream* out) {
  if (output.format == ExportFormat::kText && output.provenance) {
    if (absl::Status s = WriteProvenanceText(configs, sources, output.counts, out); !s.ok()) return s;
    return std::vector<std::string>();
  }
  SinkOptions options;
  options.counts = output.counts;
  options.python = output.python;
  const absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(output.format, out, options);
  if (!sink.ok()) return sink.status();
  for (const DedupConfig& config : configs) {
    ConfigRow row;
    row.identity = IsReplayed(output.format) ? config.example : config.identity;
    row.calls = config.calls;
    if (!output.provenance || !HoldsProvenance(output.format)) {
      if (absl::Status s = (*sink)->Add(row); !s.ok()) return s;
      continue;
    }
    for (const auto& [index, calls] : config.sources) {
      const DedupSource& source = sources[index];
      row.calls = calls;
      row.trace = source.trace;
      row.host = source.host;
      row.pid = source.pid;
      row.rank = source.rank;
      if (absl::Status s = (*sink)->Add(row); !s.ok()) return s;
    }
  }
  if (absl::Status s = (*sink)->Finish(); !s.ok()) return s;
  return (*sink)->notes();
}

}  // namespace torchtrace
