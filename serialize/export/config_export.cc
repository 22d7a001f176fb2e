#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "serialize/export/exports.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Of one process.
struct ConfigTotal {
  uint64_t calls = 0;
  int64_t time_ns = 0;
};
struct ProcessTotals {
  std::vector<ConfigTotal> configs;  // by ConfigId; may be shorter
  std::vector<ConfigId> order;       // by first call
};

// Whether a filter accepts a config, by ConfigId; each is checked once.
class AcceptedConfigs {
 public:
  AcceptedConfigs(const Trace& trace, const ExportFilter& filter) : trace_(trace), filter_(filter) {}

  bool operator()(ConfigId config) {
    if (config == kLostId) return false;
    if (config >= known_.size()) known_.resize(config + config / 2 + 16, -1);
    if (known_[config] < 0) known_[config] = filter_.Accepts(trace_.identity(config)) ? 1 : 0;
    return known_[config] != 0;
  }

 private:
  const Trace& trace_;
  const ExportFilter& filter_;
  std::vector<int8_t> known_;
};

absl::Status ExportByProcess(Trace* trace, const std::string& label, const ExportFilter& filter, ConfigSink* sink) {
  std::vector<ProcessTotals> processes;
  AcceptedConfigs accepts(*trace, filter);
  const absl::Status read = trace->ReadCounted([&](const CallRecord& call) -> absl::Status {
    if (!accepts(call.config)) return absl::OkStatus();
    if (call.process >= processes.size()) processes.resize(call.process + 1);
    ProcessTotals& process = processes[call.process];
    if (call.config >= process.configs.size()) process.configs.resize(call.config + call.config / 2 + 16);
    ConfigTotal& total = process.configs[call.config];
    if (call.kind == CallRecord::kEnter) {
      if (total.calls == 0) process.order.push_back(call.config);
      total.calls += call.count;
    } else {
      total.time_ns += call.total_duration_ns();
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  for (size_t i = 0; i < processes.size(); ++i) {
    const ProcessOrigin origin = OriginOf(trace->processes()[i], label);
    for (const ConfigId config : processes[i].order) {
      const ConfigTotal& total = processes[i].configs[config];
      const absl::Status added = sink->Add({.identity = trace->identity(config),
                                            .calls = total.calls,
                                            .time_ns = origin.clock || total.time_ns != 0 ? total.time_ns : -1,
                                            .trace = origin.label,
                                            .host = origin.host,
                                            .pid = origin.pid,
                                            .rank = origin.rank});
      if (!added.ok()) return added;
    }
  }
  return absl::OkStatus();
}

// Sums the calls of equal configs over all traces.
class ConfigSum {
 public:
  absl::Status AddTrace(Trace* trace, const ExportFilter& filter) {
    const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count();
    if (!counts.ok()) return counts.status();
    AcceptedConfigs accepts(*trace, filter);
    for (VariantId variant = 0; variant < counts->size(); ++variant) {
      const ConfigId config = trace->config_of(variant);
      if ((*counts)[variant] == 0 || !accepts(config)) continue;
      const size_t number = static_cast<size_t>(identities_.Number(trace->identity(config)));
      if (number == calls_.size()) calls_.push_back(0);
      calls_[number] += (*counts)[variant];
    }
    return absl::OkStatus();
  }

  absl::Status WriteInOrder(ConfigSink* sink) const {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (absl::Status s = sink->Add({.identity = identities_.text(i), .calls = calls_[i]}); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // `unique`: of several configs with one line, only the first, with the calls of all.
  absl::Status WriteSorted(bool unique, ConfigSink* sink) const {
    std::vector<std::pair<std::string, size_t>> lines;
    lines.reserve(calls_.size());
    for (size_t i = 0; i < calls_.size(); ++i) {
      lines.emplace_back(FormatConfig(ReadableConfig(identities_.text(i))), i);
    }
    std::sort(lines.begin(), lines.end());
    for (size_t i = 0; i < lines.size();) {
      const size_t first = i;
      uint64_t calls = calls_[lines[i].second];
      for (++i; unique && i < lines.size() && lines[i].first == lines[first].first; ++i) {
        calls += calls_[lines[i].second];
      }
      const absl::Status added = sink->Add({.identity = identities_.text(lines[first].second), .calls = calls});
      if (!added.ok()) return added;
    }
    return absl::OkStatus();
  }

 private:
  TextNumbers identities_;
  std::vector<uint64_t> calls_;  // by number of the identity
};

}  // namespace

bool ExportFilter::Accepts(std::string_view identity) const {
  if (levels.empty() && filter.AcceptsAll()) return true;
  const ConfigHead head = ReadConfigHead(identity);
  if (!levels.empty() && std::find(levels.begin(), levels.end(), head.level) == levels.end()) return false;
  return filter.Accepts(head.api);
}

ProcessOrigin OriginOf(const ProcessInfo& process, const std::string& trace_label) {
  ProcessOrigin origin;
  const ProcessMetadata& known = process.known;
  origin.label = known.label.empty() ? trace_label : known.label;
  origin.host = known.host;
  origin.pid = known.pid.value_or(-1);
  origin.rank = known.ranked.rank.value_or(-1);
  origin.clock = known.has_clock;
  return origin;
}

absl::Status ExportConfigs(const std::vector<LabelledTrace>& traces, const ExportFilter& filter,
                           const Exporter& exporter, ConfigSink* sink) {
  const bool by_process = exporter.provenance == Provenance::kAlways;
  ConfigSum sum;
  for (const LabelledTrace& labelled : traces) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = labelled.open();
    if (!trace.ok()) return trace.status();
    const absl::Status read =
        by_process ? ExportByProcess(trace->get(), labelled.label, filter, sink) : sum.AddTrace(trace->get(), filter);
    if (!read.ok()) return read;
    if (labelled.done) labelled.done(**trace);
  }
  if (by_process) return absl::OkStatus();
  return exporter.sorted ? sum.WriteSorted(/*unique=*/!exporter.levels, sink) : sum.WriteInOrder(sink);
}

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
    row.time_ns = config.time_ns;
    if (!output.provenance || exporter.provenance == Provenance::kNone) {
      if (absl::Status s = (*sink)->Add(row); !s.ok()) return s;
      continue;
    }
    for (const DedupShare& share : config.sources) {
      const DedupSource& source = sources[share.source];
      row.calls = share.calls;
      row.time_ns = share.time_ns;
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
