#include "serialize/export/timing_export.h"

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/saturating.h"
#include "serialize/base/text.h"
#include "serialize/export/row_lists.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/levels.h"
#include "serialize/model/value.h"
#include "serialize/trace/launched_work.h"

namespace torchtrace {
namespace {

constexpr int64_t kUnknown = INT64_MIN;

const Value* FindKwarg(const Config& config, std::string_view name) {
  for (const auto& [kwarg, value] : config.kwargs) {
    if (kwarg == name) return &value;
  }
  return nullptr;
}

std::string Milliseconds(int64_t ns) { return FormatFloat(static_cast<double>(ns) / 1e6); }

// A call that is kept until its API is written.
struct CallRow {
  int64_t start_ns;     // since 1970, or kUnknown
  int64_t duration_ns;  // or kUnknown
  int64_t device_ns;    // or kUnknown
  int64_t told;         // number of the text that all calls of its config share (TimingSpelling::Told)
};

struct ApiTotal {
  std::string api;
  int64_t total_ns = kUnknown;
  int64_t device_ns = kUnknown;
};

// The spelling of a file's parts. Told() is the part that all calls of a config share, spelled once.
class TimingSpelling {
 public:
  virtual ~TimingSpelling() = default;
  // Whether it writes device times; before the first file.
  void ShowDevice(bool shows) { device_ = shows; }
  virtual std::string Told(const Config& config) const = 0;
  virtual std::string BeginFile() const = 0;
  virtual std::string BeginApi(const ApiTotal& api, bool first_of_file) const = 0;
  virtual void AppendCall(const ApiTotal& api, uint64_t number, const CallRow& call, std::string_view told,
                          std::string* out) const = 0;
  virtual std::string EndApi() const = 0;
  virtual std::string EndFile() const = 0;

 protected:
  bool device_ = false;
};

class JsonSpelling final : public TimingSpelling {
 public:
  std::string Told(const Config& config) const override {
    // The times go in between, at the line break; neither part contains one.
    return absl::StrCat(QuotedJson(DetailedApiName(config)), "\n", QuotedJson(TimingArguments(config)));
  }
  std::string BeginFile() const override { return "{"; }
  std::string BeginApi(const ApiTotal& api, bool first_of_file) const override {
    return absl::StrCat(first_of_file ? "" : ",\n", QuotedJson(api.api), ": {\"TotalTime(ms)\": ", Number(api.total_ns),
                        device_ ? absl::StrCat(", \"TotalDeviceTime(ms)\": ", Number(api.device_ns)) : "");
  }
  void AppendCall(const ApiTotal&, uint64_t number, const CallRow& call, std::string_view told,
                  std::string* out) const override {
    const size_t split = told.find('\n');
    absl::StrAppend(out, ",\n\"", number, "\": {\"detailedAPIName\": ");
    out->append(told.substr(0, split));
    out->append(", \"StartTimestamp\": ");
    out->append(call.start_ns == kUnknown ? "null" : absl::StrCat(call.start_ns));
    out->append(", \"CostTime(ms)\": ");
    out->append(Number(call.duration_ns));
    if (device_) absl::StrAppend(out, ", \"DeviceTime(ms)\": ", Number(call.device_ns));
    out->append(", \"Arguments\": ");
    out->append(told.substr(split + 1));
    out->push_back('}');
  }
  std::string EndApi() const override { return "}"; }
  std::string EndFile() const override { return "}\n"; }

 private:
  static std::string Number(int64_t ns) { return ns == kUnknown ? "null" : Milliseconds(ns); }
};

class CsvSpelling final : public TimingSpelling {
 public:
  std::string Told(const Config& config) const override { return CsvCell(TimingArguments(config)); }
  std::string BeginFile() const override {
    return absl::StrCat("API Name,Total Time (ms),", device_ ? "Total Device Time (ms)," : "",
                        "Call Number,Start Timestamp,Cost Time (ms),", device_ ? "Device Time (ms)," : "",
                        "Arguments\n");
  }
  std::string BeginApi(const ApiTotal&, bool) const override { return ""; }
  void AppendCall(const ApiTotal& api, uint64_t number, const CallRow& call, std::string_view told,
                  std::string* out) const override {
    absl::StrAppend(out, CsvCell(api.api), ",", Number(api.total_ns), ",");
    if (device_) absl::StrAppend(out, Number(api.device_ns), ",");
    absl::StrAppend(out, number, ",");
    if (call.start_ns != kUnknown) absl::StrAppend(out, call.start_ns);
    absl::StrAppend(out, ",", Number(call.duration_ns), ",");
    if (device_) absl::StrAppend(out, Number(call.device_ns), ",");
    out->append(told);
    out->push_back('\n');
  }
  std::string EndApi() const override { return ""; }
  std::string EndFile() const override { return ""; }

 private:
  static std::string Number(int64_t ns) { return ns == kUnknown ? "" : Milliseconds(ns); }
};

// The processes that share files, and their calls.
struct FileGroup {
  FileFacts facts;
  std::vector<size_t> apis;                         // their lists, in the order of their first calls
  absl::flat_hash_map<std::string, size_t> by_api;  // the same lists by name
};

class TimingSink final : public CallSink {
 public:
  TimingSink(TextSeries* out, const TimingOptions& options)
      : options_(options), out_(out), rows_(options.temporary_folder) {
    if (options.format == TimingFormat::kJson) {
      spelling_ = std::make_unique<JsonSpelling>();
    } else {
      spelling_ = std::make_unique<CsvSpelling>();
    }
  }

  absl::Status Begin(Trace* trace, std::string_view) override {
    trace_ = trace;
    configs_.clear();
    processes_.clear();
    open_.clear();
    has_device_times_ = has_device_times_ || HasDeviceTimes(*trace);
    return device_times_.Prepare(trace);
  }

  absl::Status Add(const CallRecord& record) override {
    device_ns_ = device_times_.Take(record).value_or(kUnknown);
    return record.kind == CallRecord::kEnter ? Enter(record) : Leave(record);
  }
  absl::Status AddOther(const CallRecord& record) override {
    device_times_.Take(record);
    return absl::OkStatus();
  }

  absl::Status End() override { return absl::OkStatus(); }

  absl::Status Finish() override {
    if (groups_.empty()) groups_.emplace_back();
    spelling_->ShowDevice(has_device_times_);
    for (const FileGroup& group : groups_) {
      if (absl::Status s = BeginFile(group.facts); !s.ok()) return s;
      for (const size_t api : group.apis) {
        if (absl::Status s = WriteApi(group, api); !s.ok()) return s;
      }
      Append(spelling_->EndFile());
    }
    return absl::OkStatus();
  }

 private:
  struct ConfigFacts {
    bool known = false;
    int64_t told = 0;
    std::string api;
    std::vector<size_t> lists;  // by group; kNoList: no call yet
  };
  struct ProcessFacts {
    size_t group = kNoGroup;  // until it calls something
    bool clock = false;
    int64_t realtime_offset_ns = 0;  // 0: not known
  };
  struct OpenCall {
    size_t list = 0;
    uint64_t place = 0;
    CallRow row;
    uint8_t level = 0;
  };
  static constexpr size_t kNoList = SIZE_MAX;
  static constexpr size_t kNoGroup = SIZE_MAX;

  ConfigFacts& FactsOf(ConfigId config) {
    if (config >= configs_.size()) configs_.resize(config + config / 2 + 16);
    ConfigFacts& facts = configs_[config];
    if (facts.known) return facts;
    facts.known = true;
    const Config parsed = ReadableConfig(trace_->identity(config));
    facts.api = TimingApi(parsed);
    facts.told = told_.Number(spelling_->Told(parsed));
    return facts;
  }

  const ProcessFacts& ProcessOf(uint32_t number) {
    if (number >= processes_.size()) processes_.resize(number + 1);
    ProcessFacts& process = processes_[number];
    if (process.group != kNoGroup) return process;
    const ProcessInfo& info = trace_->processes()[number];
    const FileFacts facts = {.pid = info.known.pid.value_or(-1), .rank = info.known.ranked.rank.value_or(-1)};
    const std::string key = options_.file_key == nullptr ? "" : options_.file_key(facts);
    const auto [at, is_new] = group_of_key_.emplace(key, groups_.size());
    if (is_new) groups_.push_back({.facts = facts, .apis = {}, .by_api = {}});
    const ProcessClock clock = ReadProcessClock(*info.metadata);
    process = {.group = at->second, .clock = clock.known, .realtime_offset_ns = clock.realtime_offset_ns};
    return process;
  }

  static int64_t SinceEpoch(const ProcessFacts& process, int64_t time_ns) {
    int64_t start_ns = 0;
    const bool known = process.clock && process.realtime_offset_ns != 0 &&
                       !__builtin_add_overflow(time_ns, process.realtime_offset_ns, &start_ns);
    return known ? start_ns : kUnknown;
  }

  size_t ListOf(ConfigFacts* config, size_t group_number) {
    if (config->lists.size() <= group_number) config->lists.resize(group_number + 1, kNoList);
    size_t& list = config->lists[group_number];
    if (list != kNoList) return list;
    FileGroup& group = groups_[group_number];
    const auto [at, is_new] = group.by_api.emplace(config->api, totals_.size());
    if (is_new) {
      rows_.AddList();
      totals_.push_back({.api = config->api});
      group.apis.push_back(at->second);
    }
    return list = at->second;
  }

  absl::Status Enter(const CallRecord& record) {
    ConfigFacts& config = FactsOf(record.config);
    const ProcessFacts& process = ProcessOf(record.process);
    const size_t list = ListOf(&config, process.group);
    if (const auto parent = open_.find(record.parent); parent != open_.end()) {
      if (parent->second.list == list && parent->second.level != record.level) return absl::OkStatus();
    }
    const OpenCall call = {.list = list,
                           .place = rows_.size(list),
                           .row = {.start_ns = SinceEpoch(process, record.time_ns),
                                   .duration_ns = kUnknown,
                                   .device_ns = kUnknown,
                                   .told = config.told},
                           .level = record.level};
    open_.emplace(record.call, call);
    return rows_.Append(list, call.row);
  }

  absl::Status Leave(const CallRecord& record) {
    const auto at = open_.find(record.call);
    if (at == open_.end()) return absl::OkStatus();
    OpenCall call = at->second;
    open_.erase(at);
    if (!processes_[record.process].clock && record.duration_ns == 0) return absl::OkStatus();
    call.row.duration_ns = record.duration_ns;
    call.row.device_ns = device_ns_;
    AddTo(record.duration_ns, &totals_[call.list].total_ns);
    if (device_ns_ != kUnknown) AddTo(device_ns_, &totals_[call.list].device_ns);
    return rows_.Set(call.list, call.place, call.row);
  }

  static void AddTo(int64_t ns, int64_t* total_ns) {
    if (*total_ns == kUnknown) *total_ns = 0;
    AddSaturating(ns, total_ns);
  }

  absl::Status BeginFile(const FileFacts& facts) {
    if (absl::Status s = out_->Begin(facts); !s.ok()) return s;
    bytes_ = 0;
    first_of_file_ = true;
    Append(spelling_->BeginFile());
    return absl::OkStatus();
  }

  absl::Status WriteApi(const FileGroup& group, size_t api) {
    const std::string end = spelling_->EndApi();
    const uint64_t end_bytes = end.size() + spelling_->EndFile().size();
    bool begun = false;  // in this file
    uint64_t number = 0;
    std::string text;
    const absl::Status written = rows_.Read(api, [&](const CallRow& call) -> absl::Status {
      ++number;
      const auto compose = [&] {
        text = begun ? "" : spelling_->BeginApi(totals_[api], first_of_file_);
        spelling_->AppendCall(totals_[api], number, call, told_.text(static_cast<size_t>(call.told)), &text);
      };
      compose();
      if (!first_of_file_ && bytes_ + text.size() + end_bytes > out_->max_bytes()) {
        if (begun) Append(end);
        Append(spelling_->EndFile());
        if (absl::Status s = BeginFile(group.facts); !s.ok()) return s;
        begun = false;
        compose();
      }
      Append(text);
      begun = true;
      first_of_file_ = false;
      return absl::OkStatus();
    });
    if (written.ok()) Append(end);
    return written;
  }

  void Append(std::string_view text) {
    out_->Append(text);
    bytes_ += text.size();
  }

  const TimingOptions options_;
  TextSeries* const out_;
  std::unique_ptr<TimingSpelling> spelling_;
  bool has_device_times_ = false;  // some trace
  TextNumbers told_;

  // Of the trace being read.
  const Trace* trace_ = nullptr;
  std::vector<ConfigFacts> configs_;  // by ConfigId
  std::vector<ProcessFacts> processes_;
  absl::flat_hash_map<uint64_t, OpenCall> open_;  // by number; only those to be written
  DeviceTimesOfCalls device_times_;
  int64_t device_ns_ = kUnknown;  // of the call that ends

  absl::flat_hash_map<std::string, size_t> group_of_key_;
  std::vector<FileGroup> groups_;
  std::vector<ApiTotal> totals_;  // by list
  RowLists<CallRow> rows_;        // a list per API and group

  // Of the file being written.
  uint64_t bytes_ = 0;
  bool first_of_file_ = true;  // it has no call yet
};

}  // namespace

std::string TimingApi(const Config& config) {
  const bool may_be_operator = config.level == kDispatchLevel || config.level == kRecordLevel;
  const size_t name = config.api.find("::");
  if (!may_be_operator || name == std::string::npos) return config.api;
  return config.api.substr(0, config.api.find('.', name));
}

std::string DetailedApiName(const Config& config) {
  if (config.level != kFrameLevel) return config.api;
  if (const ModuleLabel module = ModuleLabelOf(config); !module.empty())
    return absl::StrCat(config.api, "@", module.WholePath());
  const Value* const file = FindKwarg(config, "file");
  const Value* const line = FindKwarg(config, "line");
  return file == nullptr || line == nullptr ? config.api
                                            : absl::StrCat(config.api, "@", file->text, ":", line->integer);
}

std::string TimingArguments(const Config& config) {
  std::string text = "((";
  const char* separator = "";
  for (const Value& arg : config.args) {
    absl::StrAppend(&text, separator, FormatValue(arg, config.framework()));
    separator = ", ";
  }
  text += config.args.size() == 1 ? ",), {" : "), {";
  separator = "";
  for (const auto& [name, value] : config.kwargs) {
    absl::StrAppend(&text, separator, QuoteText(name), ": ", FormatValue(value, config.framework()));
    separator = ", ";
  }
  return text + "})";
}

std::unique_ptr<CallSink> MakeTimingSink(TextSeries* out, const TimingOptions& options) {
  return std::make_unique<TimingSink>(out, options);
}

extern const Exporter kTimingExporter;
const Exporter kTimingExporter = {
    .name = "timing",
    .help = "how long each API took, call by call: JSON or CSV, as TorchWrapper writes it",
    .shared_suffix = "json",
    .write = WritesSeries{MakeTimingSink},
};

absl::StatusOr<std::vector<std::string>> ExportTimingFiles(const std::vector<LabelledTrace>& traces,
                                                           const CallSelection& selection, TimingOptions options,
                                                           const TimingFiles& files) {
  FileSeries series(files.folder, files.names, files.series);
  if (absl::Status s = series.MakeFolder(); !s.ok()) return s;
  options.temporary_folder = files.folder;
  options.file_key = [&files](const FileFacts& facts) { return files.names.Key(facts); };
  TimingSink sink(&series, options);
  absl::Status status = ExportTimeline(traces, selection, &sink);
  if (status.ok()) status = sink.Finish();
  if (status.ok()) status = series.Commit();
  if (!status.ok()) return status;
  return series.paths();
}

}  // namespace torchtrace
