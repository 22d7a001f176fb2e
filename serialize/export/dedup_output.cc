#include "serialize/export/dedup_output.h"

#include <memory>
#include <string_view>

namespace torchtrace {
absl::StatusOr<std::vector<std::string>> WriteDedup(const std::vector<DedupConfig>& configs,
                                                    const std::vector<DedupSource>& sources, const DedupOutput& output,
                                                    std::ostream* out) {
  const Exporter& exporter = *output.exporter;
  if (output.provenance && std::string_view(exporter.name) == "text") {
    if (absl::Status s = WriteProvenanceText(configs, sources, output.counts, out); !s.ok()) return s;
    return std::vector<std::string>();
  }
  const absl::StatusOr<std::unique_ptr<ConfigSink>> sink = MakeConfigSink(exporter, out, {.counts = output.counts});
  if (!sink.ok()) return sink.status();
  for (const DedupConfig& config : configs) {
    ConfigRow row;
    row.identity = exporter.replayed ? config.example : config.identity;
    row.calls = config.calls;
    if (!output.provenance || exporter.provenance == Provenance::kNone) {
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
