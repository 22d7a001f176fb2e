#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "serialize/base/saturating.h"
#include "serialize/export/exports.h"
#include "serialize/export/table_facts.h"
#include "serialize/export/table_writer.h"
#include "serialize/export/tag_texts.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/model/config.h"
#include "serialize/trace/launched_work.h"
#include "serialize/where/selected_calls.h"

namespace torchtrace {
namespace {

// Of one process.
struct ConfigTotal {
  uint64_t calls = 0;
  uint64_t returned = 0;
  int64_t time_ns = 0;
  int64_t device_ns = kNullCell;
  // Of its first call.
  std::string_view module = {};
  uint64_t first_call = kNoCall;  // kNoCall: the log only counts it
  int64_t step = kNullCell;
  uint32_t tags = kNoTags;
  StackId stack = kNoStack;
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

// A sum of costs, with limits.
int64_t TimesCost(const std::optional<double>& of_a_call, uint64_t calls) {
  if (!of_a_call.has_value()) return kNullCell;
  return CostCell(*of_a_call * static_cast<double>(calls));
}

absl::Status ExportByProcess(Trace* trace, const std::string& label, const ConfigExportOptions& options,
                             ConfigSink* sink) {
  if (absl::Status s = trace->Count().status(); !s.ok()) return s;
  std::vector<ProcessTotals> processes;
  AcceptedConfigs accepts(*trace, options.filter);
  SelectedCalls selected(trace, options.selection);
  if (absl::Status s = selected.Prepare(); !s.ok()) return s;
  DeviceTimesOfCalls device_times;
  if (absl::Status s = device_times.Prepare(trace); !s.ok()) return s;
  if (options.facts != nullptr) options.facts->Begin(*trace);
  StepCells steps(trace);
  const absl::Status read = ReadFor(options.selection, trace, [&](const CallRecord& call) -> absl::Status {
    const bool enters = call.kind == CallRecord::kEnter;
    // Modules and steps follow from all calls, also from those that are left out.
    const std::string_view module =
        enters && options.facts != nullptr ? options.facts->ModuleOf(call) : std::string_view();
    const int64_t step = enters ? steps.Of(call) : kNullCell;
    const std::optional<int64_t> device_ns = device_times.Take(call);
    if (!selected.Wants(call) || !accepts(call.config)) return absl::OkStatus();
    if (call.process >= processes.size()) processes.resize(call.process + 1);
    ProcessTotals& process = processes[call.process];
    if (call.config >= process.configs.size()) process.configs.resize(call.config + call.config / 2 + 16);
    ConfigTotal& total = process.configs[call.config];
    if (enters) {
      if (total.calls == 0) {
        process.order.push_back(call.config);
        if (call.thread != kNoThread) total.first_call = call.call;
        total.module = module;
        total.step = step;
        total.tags = call.tags;
        total.stack = call.stack;
      }
      total.calls += call.count;
      return absl::OkStatus();
    }
    total.time_ns += call.total_duration_ns();
    if (call.kind == CallRecord::kLeave) total.returned += call.count;
    if (device_ns.has_value()) {
      total.device_ns = std::max<int64_t>(total.device_ns, 0);
      AddSaturating(*device_ns, &total.device_ns);
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  TagTexts tags(trace);
  const StackText stacks(*trace);
  for (size_t i = 0; i < processes.size(); ++i) {
    const ProcessOrigin origin = OriginOf(trace->processes()[i], label);
    for (const ConfigId config : processes[i].order) {
      const ConfigTotal& total = processes[i].configs[config];
      ConfigRow row = {.identity = trace->identity(config),
                       .calls = total.calls,
                       .time_ns = origin.clock || total.time_ns != 0 ? total.time_ns : -1,
                       .trace = origin.label,
                       .host = origin.host,
                       .pid = origin.pid,
                       .rank = origin.rank,
                       .module = total.module,
                       .tags = tags.Of(total.tags),
                       .step = total.step,
                       .device_ns = total.device_ns};
      if (total.first_call != kNoCall) row.first_call = static_cast<int64_t>(total.first_call);
      std::string file;
      if (total.stack != kNoStack) {
        const StackTable& table = trace->stacks();
        const StackPlace& place = table.line(table.calling_line(total.stack));
        file = stacks.File(table.code(place.code).file);
        row.file = file;
        if (place.line > 0) row.line = place.line;
      }
      if (options.facts != nullptr) {
        row.sizes = options.facts->SizesOf(ReadableConfig(row.identity));
        row.flops = TimesCost(row.sizes.cost.flops, total.returned);
        row.bytes = TimesCost(row.sizes.cost.bytes, total.returned);
      }
      if (absl::Status s = sink->Add(row); !s.ok()) return s;
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

absl::Status ExportConfigs(const std::vector<LabelledTrace>& traces, const ConfigExportOptions& options,
                           const Exporter& exporter, ConfigSink* sink) {
  const bool by_process = exporter.provenance == Provenance::kAlways;
  ConfigSum sum;
  for (const LabelledTrace& labelled : traces) {
    const absl::StatusOr<std::unique_ptr<Trace>> trace = labelled.open();
    if (!trace.ok()) return trace.status();
    const absl::Status read = by_process ? ExportByProcess(trace->get(), labelled.label, options, sink)
                                         : sum.AddTrace(trace->get(), options.filter);
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
    if (output.facts != nullptr && exporter.HoldsTables())
      row.sizes = output.facts->SizesOf(ReadableConfig(row.identity));
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
