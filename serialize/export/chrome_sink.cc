// Calls as events of a Chrome trace, with the categories and argument names of PyTorch's profiler (Kineto), so that
// chrome://tracing, Perfetto and Holistic Trace Analysis read them (docs/EXPORT.md).

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/list_writer.h"
#include "serialize/export/span_tracks.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/config.h"
#include "serialize/model/device_work.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"
#include "serialize/model/unknown_arguments.h"
#include "serialize/trace/launched_work.h"
#include "serialize/trace/node_makers.h"
#include "serialize/trace/recent_calls.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// An input as the profiler writes it; texts are empty where it writes nothing.
struct Input {
  std::string concrete;
  std::string type;
  ordered_json dims = ordered_json::array();
  ordered_json strides = ordered_json::array();
};

// Empty if the value is not a number.
std::string NumberText(const Value& value) {
  switch (value.tag) {
    case ValueTag::kFalse:
      return "False";
    case ValueTag::kTrue:
      return "True";
    case ValueTag::kInt:
    case ValueTag::kFloat:
    case ValueTag::kComplex:
      return FormatValue(value);
    default:
      return "";
  }
}

ordered_json DimsJson(const std::vector<Dim>& dims) {
  ordered_json json = ordered_json::array();
  for (const Dim& dim : dims) json.push_back(dim.value_or(-1));
  return json;
}

Input DescribeInput(const Value& value) {
  Input input;
  if (value.tag == ValueTag::kTensor) {
    input.type = CppNameOfDtype(value.text);
    input.dims = DimsJson(value.shape);
    input.strides = DimsJson(StridesOf(value));
    return input;
  }
  if (std::string number = NumberText(value); !number.empty()) {
    input.type = "Scalar";
    input.concrete = std::move(number);
    return input;
  }
  if (value.tag != ValueTag::kList && value.tag != ValueTag::kTuple && value.tag != ValueTag::kSize) return input;
  const auto is_tensor = [](const Value& item) { return item.tag == ValueTag::kTensor; };
  if (!value.items.empty() && std::all_of(value.items.begin(), value.items.end(), is_tensor)) {
    input.type = "TensorList";
    for (const Value& item : value.items) {
      input.dims.push_back(DimsJson(item.shape));
      input.strides.push_back(DimsJson(StridesOf(item)));
    }
    return input;
  }
  std::vector<std::string> numbers;
  for (const Value& item : value.items) numbers.push_back(NumberText(item));
  const bool all = std::none_of(numbers.begin(), numbers.end(), [](const std::string& text) { return text.empty(); });
  input.type = all ? "ScalarList" : "GenericList";
  if (all) input.concrete = absl::StrCat("[", absl::StrJoin(numbers, ", "), "]");
  return input;
}

const Value* Keyword(const Config& config, std::string_view name) {
  for (const auto& [keyword, value] : config.kwargs) {
    if (keyword == name) return &value;
  }
  return nullptr;
}

std::string KeywordText(const Config& config, std::string_view name) {
  const Value* const value = Keyword(config, name);
  return value != nullptr && value->tag == ValueTag::kString ? std::string(value->text) : std::string();
}

// What all events of a config share.
struct Spelled {
  bool known = false;
  bool of_python = false;
  bool operator_call = false;
  std::string head;       // `"cat":"cpu_op","name":"aten::add"`
  std::string arguments;  // with a comma before each
  std::string module;     // its name, quoted; empty: it is no module's
};

bool OnCpuAlone(const Trace& trace) {
  const auto elsewhere = [](const auto& self, const Value& value) -> bool {
    if (value.tag == ValueTag::kTensor && value.device != "cpu") return true;
    return std::any_of(value.items.begin(), value.items.end(), [&](const Value& item) { return self(self, item); });
  };
  for (ConfigId id = 0; id < trace.config_count(); ++id) {
    const Config config = ReadableConfig(trace.identity(id));
    for (const Value& value : config.args) {
      if (elsewhere(elsewhere, value)) return false;
    }
    for (const auto& keyword : config.kwargs) {
      if (elsewhere(elsewhere, keyword.second)) return false;
    }
  }
  return true;
}

class ChromeSink final : public CallSink {
 public:
  ChromeSink(std::ostream* out, const ExportOptions& options) : out_(out), options_(options) {}

  absl::Status Begin(Trace* trace, std::string_view label) override {
    trace_ = trace;
    spelled_.clear();
    several_models_.reset();
    processes_before_ += processes_.size();
    processes_.clear();
    node_makers_ = NodeMakers<ForwardCall>();
    work_names_.emplace(*trace);
    spans_.emplace(trace);
    std::vector<ProcessClock> clocks;
    for (const ProcessInfo& info : trace->processes()) {
      if (info.calls > 0 && !info.known.has_clock) {
        return absl::FailedPreconditionError(absl::StrCat(std::string(label), " has no times for the calls of ",
                                                          ProcessName(info), ", which a Chrome trace needs"));
      }
      clocks.push_back(ReadProcessClock(*info.metadata));
    }
    const ProcessOrder order = OrderProcesses(clocks);
    processes_.resize(clocks.size());
    for (const std::vector<uint32_t>& group : order.groups) {
      for (const uint32_t i : group) {
        processes_[i].offset_ns = clocks[group[0]].realtime_offset_ns - order.shift_ns[group[0]] + order.shift_ns[i];
      }
    }
    has_records_ = false;
    for (ConfigId id = 0; id < trace->config_count(); ++id) {
      has_records_ = has_records_ || ReadConfigHead(trace->identity(id)).level == kRecordLevel;
    }
    if (!begun_) WriteHead(clocks);
    for (size_t i = 0; i < processes_.size(); ++i) Introduce(i, label);
    return out_.WriteBlocks();
  }

  RecordsShown reads(const Trace& trace) const override { return {.later = HasDeviceTimes(trace)}; }

  absl::Status Add(const CallRecord& record) override {
    if (record.kind != CallRecord::kLater) spans_->Add(record, /*shown=*/true);
    Process& process = processes_[record.process];
    process.last_ns = std::max(process.last_ns, record.time_ns);
    Thread& thread = ThreadOf(record);
    if (record.kind == CallRecord::kEnter) {
      thread.open.push_back(
          {record.call, record.config, record.time_ns, record.facts, PythonParent(thread), record.tags});
      if (trace_->shows_later()) thread.recent.Add(record.call, {record.call, record.time_ns});
      if (const ForwardCall* const forward = node_makers_.Find(record.process, record.facts)) {
        thread.open.back().forward = *forward;
      }
      node_makers_.Add(record.process, record.facts, {&thread.place, record.time_ns + process.offset_ns - base_ns_});
      if (Spell(record.config).of_python) thread.open.back().python_id = ++python_ids_;
      return absl::OkStatus();
    }
    // The end of a call inside this one may be lost.
    while (!thread.open.empty() && thread.open.back().call > record.call) {
      WriteEvent(process, thread, thread.open.back(), record.time_ns, R"(,"outcome":"its end is lost")");
      thread.open.pop_back();
    }
    if (thread.open.empty() || thread.open.back().call != record.call) return absl::OkStatus();
    std::string outcome;
    if (record.kind == CallRecord::kRaise) outcome = absl::StrCat(R"(,"exception":)", QuotedJson(record.exception));
    WriteEvent(process, thread, thread.open.back(), record.time_ns, outcome);
    thread.open.pop_back();
    return out_.WriteBlocks();
  }

  // What a call launched that isn't shown is of the shown one around it.
  absl::Status AddOther(const CallRecord& record) override {
    if (record.kind == CallRecord::kEnter) spans_->Add(record, /*shown=*/false);
    if (!trace_->shows_later()) return absl::OkStatus();
    if (record.kind == CallRecord::kEnter) {
      Process& process = processes_[record.process];
      const auto thread = process.threads.find(record.thread);
      if (thread == process.threads.end() || thread->second.open.empty()) return absl::OkStatus();
      thread->second.recent.Add(record.call, {thread->second.open.back().call, record.time_ns});
    } else if (record.kind == CallRecord::kLater && !record.device_work.empty()) {
      WriteWork(record);
      return out_.WriteBlocks();
    }
    return absl::OkStatus();
  }

  absl::Status End() override {
    for (Process& process : processes_) {
      for (auto& [number, thread] : process.threads) {
        for (; !thread.open.empty(); thread.open.pop_back()) {
          WriteEvent(process, thread, thread.open.back(), process.last_ns, R"(,"outcome":"never returned")");
        }
      }
    }
    for (const TimelineSpan& span : spans_->Finish()) WriteSpan(span);
    spans_.reset();
    trace_ = nullptr;
    return out_.Write();
  }

  absl::Status Finish() override {
    out_.text += "\n]}\n";
    return out_.Finish();
  }

 private:
  // The beginning of a call whose backward node may follow.
  struct ForwardCall {
    const std::string* place;  // its thread's
    int64_t start_ns;
  };
  struct OpenCall {
    uint64_t call;
    ConfigId config;
    int64_t start_ns;
    RecordFacts facts;
    uint64_t python_parent;  // 0: none
    uint32_t tags;
    uint64_t python_id = 0;  // 0: not a Python call
    std::optional<ForwardCall> forward = {};
  };
  // A call, itself or in a shown one, that may have launched work.
  struct Launcher {
    uint64_t shown;  // that call
    int64_t start_ns;
  };
  struct Thread {
    std::string place;  // `"pid":1,"tid":2`
    // The same of tracks beside it; empty: they have no event yet.
    std::string modules, tags;
    std::string name;
    std::vector<OpenCall> open;
    RecentCalls<Launcher> recent;
  };
  // Of calls of the driver, by their correlations. All work of a graph has that of its launch, and may come between
  // work of other threads. Memory is bounded: remembers at least the last kMost.
  struct Launches {
    static constexpr size_t kMost = 1 << 16;
    absl::flat_hash_set<uint64_t> last, older;

    // Whether it is not remembered yet.
    bool Add(uint64_t correlation) {
      if (last.contains(correlation) || older.contains(correlation)) return false;
      if (last.size() >= kMost) older = std::exchange(last, {});
      return last.insert(correlation).second;
    }
  };
  struct Process {
    int64_t pid = 0;
    int64_t offset_ns = 0;  // added to get the time of day
    int64_t last_ns = std::numeric_limits<int64_t>::min();
    std::set<int64_t> tids;
    std::string steps;                   // as Thread::modules
    std::map<uint32_t, Thread> threads;  // by number
    std::map<uint8_t, int64_t> device_pids;
    std::set<std::pair<uint8_t, uint64_t>> streams;  // that have a name
    Launches launches;
  };
  void WriteHead(const std::vector<ProcessClock>& clocks) {
    begun_ = true;
    ordered_json head = {{"schemaVersion", 1}, {"displayTimeUnit", "ms"}, {"record_shapes", 1}};
    // Readers look for accelerators here; an empty list means CPU only.
    if (!HasDeviceTimes(*trace_) && OnCpuAlone(*trace_)) head["deviceProperties"] = ordered_json::array();
    const std::vector<ProcessInfo>& infos = trace_->processes();
    if (!infos.empty()) {
      constexpr int64_t kSecond = 1'000'000'000;
      base_ns_ = (clocks[0].origin_ns + processes_[0].offset_ns) / kSecond * kSecond;
      const ProcessMetadata& known = infos[0].known;
      if (!known.host.empty()) head["host_name"] = known.host;
      if (infos.size() == 1 && known.ranked.rank.has_value()) {
        head["distributedInfo"] = {{"rank", *known.ranked.rank}};
        if (known.ranked.world_size.has_value()) head["distributedInfo"]["world_size"] = *known.ranked.world_size;
      }
    }
    head["baseTimeNanoseconds"] = base_ns_;
    head["traceName"] = absl::StrJoin(options_.traces, " ");
    if (!options_.version.empty()) head["torchtrace"] = options_.version;
    out_.text = DumpJson(head);
    out_.text.pop_back();
    out_.text += ",\"traceEvents\":[";
  }

  void Introduce(size_t index, std::string_view label) {
    const ProcessInfo& info = trace_->processes()[index];
    Process& process = processes_[index];
    const ProcessOrigin origin = OriginOf(info, std::string(label));
    // Processes on different machines may share a pid.
    process.pid = std::max<int64_t>(origin.pid, 0);
    TakePid(&process.pid);
    const std::string rank = origin.rank >= 0 ? absl::StrCat("rank ", origin.rank) : "";
    Tell("process_name", process.pid, 0, "name", ProcessName(info));
    Tell("process_labels", process.pid, 0, "labels", absl::StrCat(rank, rank.empty() ? "" : " ", origin.host));
    Tell("process_sort_index", process.pid, 0, "sort_index",
         origin.rank >= 0 ? origin.rank : static_cast<int64_t>(index));
  }

  void TakePid(int64_t* pid) {
    while (!pids_.insert(*pid).second) *pid = std::max<int64_t>(*pids_.rbegin() + 1, 1 << 22);
  }

  void Tell(const char* what, int64_t pid, uint64_t tid, const char* key, const ordered_json& value) {
    out_.BeginItem();
    absl::StrAppend(&out_.text, R"({"ph":"M","name":")", what, R"(","ts":0,"pid":)", pid, R"(,"tid":)", tid,
                    R"(,"args":)", DumpJson({{key, value}}), "}");
  }

  Thread& ThreadOf(const CallRecord& record) {
    Process& process = processes_[record.process];
    Thread& thread = process.threads[record.thread];
    if (!thread.place.empty()) return thread;
    const ThreadInfo* const info = FindThread(trace_->processes()[record.process], record.thread);
    int64_t tid = info == nullptr || info->os_id == 0 ? record.thread : static_cast<int64_t>(info->os_id);
    // A later thread may reuse an earlier one's number.
    while (!process.tids.insert(tid).second) tid = *process.tids.rbegin() + 1;
    thread.place = absl::StrCat(R"("pid":)", process.pid, R"(,"tid":)", tid);
    out_.BeginItem();
    thread.name = info == nullptr || info->name.empty() ? absl::StrCat("thread ", record.thread)
                                                        : absl::StrCat("thread ", record.thread, " (", info->name, ")");
    absl::StrAppend(&out_.text, R"({"ph":"M","name":"thread_name","ts":0,)", thread.place, R"(,"args":{"name":)",
                    QuotedJson(thread.name), "}}");
    return thread;
  }

  static uint64_t PythonParent(const Thread& thread) {
    for (size_t i = thread.open.size(); i-- > 0;) {
      if (thread.open[i].python_id != 0) return thread.open[i].python_id;
    }
    return 0;
  }

  const Spelled& Spell(ConfigId id) {
    if (id >= spelled_.size()) spelled_.resize(id + id / 2 + 16);
    Spelled& spelled = spelled_[id];
    if (spelled.known) return spelled;
    spelled.known = true;
    const Config config = ReadableConfig(trace_->identity(id));
    std::string name = config.api;
    const char* category = "cpu_op";
    if (config.level == kFrameLevel) {
      category = "python_function";
      spelled.of_python = true;
      const ModuleLabel label = ModuleLabelOf(config);
      const std::string file = KeywordText(config, "file");
      if (!label.empty()) {
        if (!several_models_.has_value()) several_models_ = SeveralModels::In(*trace_);
        const std::string module_name = *several_models_ ? label.WholeText() : label.Text();
        spelled.module = QuotedJson(module_name);
        name = absl::StrCat("nn.Module: ", module_name);
        const auto module =
            module_ids_.try_emplace(absl::StrCat(config.api, " ", label.WholePath()), module_ids_.size()).first;
        spelled.arguments = absl::StrCat(R"(,"Python module id":)", module->second);
      } else if (!file.empty()) {
        const Value* const line = Keyword(config, "line");
        const size_t last = config.api.rfind('.');
        name = absl::StrCat(file, "(", line == nullptr ? "?" : NumberText(*line),
                            "): ", last == std::string::npos ? config.api : config.api.substr(last + 1));
      }
    } else if (config.level == kSetattrLevel || config.level == kFunctionLevel) {
      // Python functions, not operators: a sum over cpu_op must not count their time twice.
      category = "python_function";
      spelled.of_python = true;
    } else {
      // With both levels recorded, level 2's operators lie inside level 4's of the same name.
      spelled.operator_call = config.level != kDispatchLevel || !has_records_;
      if (!spelled.operator_call) category = "dispatch";
      // Kineto's names have no overloads.
      if (const std::string_view packet = OperatorPacket(name); !packet.empty() && packet.size() < name.size()) {
        const size_t bytes = packet.size();
        spelled.arguments = absl::StrCat(R"(,"Overload name":)", QuotedJson(name.substr(bytes + 1)));
        name.resize(bytes);
      }
      AddInputs(config, &spelled.arguments);
    }
    spelled.head = absl::StrCat(R"("cat":")", category, R"(","name":)", QuotedJson(name));
    absl::StrAppend(&spelled.arguments, R"(,"Level":)", config.level, R"(,"Call":)", QuotedJson(FormatConfig(config)));
    return spelled;
  }

  static void AddInputs(const Config& config, std::string* arguments) {
    if (HasUnknownArguments(config)) return;
    ordered_json concrete = ordered_json::array(), types = concrete, dims = concrete, strides = concrete;
    for (const Value& value : config.args) {
      Input input = DescribeInput(value);
      concrete.push_back(std::move(input.concrete));
      types.push_back(std::move(input.type));
      dims.push_back(std::move(input.dims));
      strides.push_back(std::move(input.strides));
    }
    absl::StrAppend(arguments, R"(,"Concrete Inputs":)", DumpJson(concrete), R"(,"Input type":)", DumpJson(types),
                    R"(,"Input Strides":)", DumpJson(strides), R"(,"Input Dims":)", DumpJson(dims));
  }

  void WriteEvent(Process& process, Thread& thread, const OpenCall& call, int64_t end_ns, std::string_view outcome) {
    const Spelled& spelled = Spell(call.config);
    const int64_t start_ns = call.start_ns + process.offset_ns - base_ns_;
    out_.BeginItem();
    absl::StrAppend(&out_.text, R"({"ph":"X",)");
    if (call.facts.scope == kUserScope) {
      absl::StrAppend(&out_.text, R"("cat":"user_annotation")", spelled.head.substr(spelled.head.find(R"(,"name":)")));
    } else {
      out_.text += spelled.head;
    }
    absl::StrAppend(&out_.text, ",", thread.place, ",\"ts\":");
    AppendMicroseconds(start_ns);
    out_.text += ",\"dur\":";
    AppendMicroseconds(std::max<int64_t>(end_ns - call.start_ns, 0));
    absl::StrAppend(&out_.text, R"(,"args":{"Ev Idx":)", call.call);
    if (spelled.of_python) {
      absl::StrAppend(&out_.text, R"(,"Python id":)", call.python_id, R"(,"Python parent id":)");
      out_.text += call.python_parent == 0 ? "null" : std::to_string(call.python_parent);
    }
    if (spelled.operator_call) absl::StrAppend(&out_.text, R"(,"External id":)", call.call + 1);
    const RecordFacts& facts = call.facts;
    if (facts.sequence >= 0) {
      absl::StrAppend(&out_.text, R"(,"Sequence number":)", facts.sequence, R"(,"Fwd thread id":)",
                      facts.forward_thread);
    }
    if (facts.id != 0) absl::StrAppend(&out_.text, R"(,"Record function id":)", facts.id);
    if (const std::string_view tags = spans_->TagsOf(call.tags); !tags.empty()) {
      absl::StrAppend(&out_.text, R"(,"Tags":)", std::string(tags));
    }
    absl::StrAppend(&out_.text, spelled.arguments, std::string(outcome), "}}");
    if (call.forward.has_value()) {
      // From a forward call to its backward node.
      WriteArrow("fwdbwd", ++flows_, *call.forward->place, call.forward->start_ns, thread.place, start_ns);
    }
    if (spelled.module.empty()) return;
    if (thread.modules.empty()) thread.modules = NewTrack(process, absl::StrCat(thread.name, " modules"));
    WriteQuotedSlice("module", spelled.module, thread.modules, start_ns, std::max<int64_t>(end_ns - call.start_ns, 0));
    out_.text += "}}";
  }

  // A track beside the threads of a process, with a number that no thread has.
  std::string NewTrack(Process& process, std::string_view name) {
    constexpr int64_t kAfterThreads = int64_t{1} << 32;
    int64_t tid = kAfterThreads;
    while (!process.tids.insert(tid).second) ++tid;
    Tell("thread_name", process.pid, static_cast<uint64_t>(tid), "name", std::string(name));
    return absl::StrCat(R"("pid":)", process.pid, R"(,"tid":)", tid);
  }

  void WriteSpan(const TimelineSpan& span) {
    Process& process = processes_[span.process];
    const bool step = span.thread == kNoThread;
    std::string& place = step ? process.steps : process.threads[span.thread].tags;
    if (place.empty()) {
      place = NewTrack(process, step ? "steps" : absl::StrCat(process.threads[span.thread].name, " tags"));
    }
    WriteSlice(step ? "user_annotation" : "tags", span.name, place, span.start_ns + process.offset_ns - base_ns_,
               span.end_ns - span.start_ns);
    out_.text += "}}";
  }

  void WriteArrow(const char* category, uint64_t id, const std::string& from, int64_t from_ns, const std::string& to,
                  int64_t to_ns) {
    const auto end = [&](const char* phase, const std::string& place, int64_t ns, const char* more) {
      out_.BeginItem();
      absl::StrAppend(&out_.text, R"({"ph":")", phase, R"(","cat":")", category, R"(","name":")", category,
                      R"(","id":)", id, ",", place, ",\"ts\":");
      AppendMicroseconds(ns);
      absl::StrAppend(&out_.text, more, "}");
    };
    end("s", from, from_ns, "");
    end("f", to, to_ns, R"(,"bp":"e")");
  }

  // A device is a process, as Kineto shows it, and a stream of it a thread.
  std::string StreamPlace(uint32_t index, const DeviceWork& work) {
    Process& process = processes_[index];
    const auto [at, fresh] = process.device_pids.try_emplace(work.device, work.device);
    const int64_t device = work.device;
    if (fresh) {
      constexpr int64_t kAfterProcesses = 5'000'000;
      TakePid(&at->second);
      Tell("process_name", at->second, 0, "name", ProcessName(trace_->processes()[index]));
      Tell("process_labels", at->second, 0, "labels", absl::StrCat("GPU ", device));
      Tell("process_sort_index", at->second, 0, "sort_index", kAfterProcesses + device);
    }
    if (process.streams.insert({work.device, work.stream}).second) {
      Tell("thread_name", at->second, work.stream, "name", absl::StrCat("stream ", work.stream));
    }
    return absl::StrCat(R"("pid":)", at->second, R"(,"tid":)", work.stream);
  }

  // Its call of the driver, unless it is known from other work, and an arrow from there.
  void WriteWork(const CallRecord& record) {
    Process& process = processes_[record.process];
    const auto thread = process.threads.find(record.thread);
    if (thread == process.threads.end()) return;
    const Launcher* const launcher = thread->second.recent.Find(record.call);
    if (launcher == nullptr) return;
    ReadDeviceWork(record.device_work, &work_);
    for (const DeviceWork& work : work_) {
      const std::string place = StreamPlace(record.process, work);
      // Numbers of several processes, of all traces, are kept apart.
      const uint64_t correlation = work.correlation + ((processes_before_ + record.process) << 32);
      const int64_t launch_ns = (work.launched_before_ns != 0 ? work.start_ns - work.launched_before_ns
                                                              : std::min(launcher->start_ns, work.start_ns)) +
                                process.offset_ns - base_ns_;
      const int64_t start_ns = work.start_ns + process.offset_ns - base_ns_;
      if (process.launches.Add(work.correlation)) {
        const char* const name = work.kind == DeviceWork::kKernel ? "cudaLaunchKernel"
                                 : work.kind == DeviceWork::kCopy ? "cudaMemcpyAsync"
                                                                  : "cudaMemsetAsync";
        WriteSlice("cuda_runtime", name, thread->second.place, launch_ns, work.launch_ns);
        absl::StrAppend(&out_.text, R"("External id":)", launcher->shown + 1, R"(,"correlation":)", correlation, "}}");
      }
      WriteSlice(work.kind == DeviceWork::kKernel ? "kernel"
                 : work.kind == DeviceWork::kCopy ? "gpu_memcpy"
                                                  : "gpu_memset",
                 work_names_->Of(record.process, work), place, start_ns, work.duration_ns);
      absl::StrAppend(&out_.text, R"("External id":)", launcher->shown + 1, R"(,"device":)", int{work.device},
                      R"(,"stream":)", work.stream, R"(,"correlation":)", correlation);
      if (work.kind != DeviceWork::kKernel) {
        absl::StrAppend(&out_.text, R"(,"bytes":)", work.bytes, ",\"memory bandwidth (GB/s)\":",
                        static_cast<double>(work.bytes) / static_cast<double>(std::max<int64_t>(work.duration_ns, 1)));
      }
      out_.text += "}}";
      WriteArrow("ac2g", correlation, thread->second.place, launch_ns, place, start_ns);
    }
  }

  // Up to its arguments.
  void WriteSlice(const char* category, std::string_view name, const std::string& place, int64_t start_ns,
                  int64_t duration_ns) {
    WriteQuotedSlice(category, QuotedJson(name), place, start_ns, duration_ns);
  }
  void WriteQuotedSlice(const char* category, const std::string& name, const std::string& place, int64_t start_ns,
                        int64_t duration_ns) {
    out_.BeginItem();
    absl::StrAppend(&out_.text, R"({"ph":"X","cat":")", category, R"(","name":)", name, ",", place, ",\"ts\":");
    AppendMicroseconds(start_ns);
    out_.text += ",\"dur\":";
    AppendMicroseconds(duration_ns);
    out_.text += R"(,"args":{)";
  }

  void AppendMicroseconds(int64_t ns) {
    const char* const sign = ns < 0 ? "-" : "";
    const uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
    const uint64_t rest = size % 1000;
    absl::StrAppend(&out_.text, sign, size / 1000, rest < 10 ? ".00" : rest < 100 ? ".0" : ".", rest);
  }

  ListWriter out_;
  const ExportOptions options_;
  bool begun_ = false;
  int64_t base_ns_ = 0;
  uint64_t python_ids_ = 0;
  uint64_t flows_ = 0;
  uint64_t processes_before_ = 0;  // of the traces before
  std::set<int64_t> pids_;
  std::map<std::string, size_t> module_ids_;
  // Of the trace being read.
  const Trace* trace_ = nullptr;
  std::optional<bool> several_models_;  // of trace_
  bool has_records_ = false;            // calls of level 4
  std::vector<Process> processes_;      // by index
  std::vector<Spelled> spelled_;        // by ConfigId
  NodeMakers<ForwardCall> node_makers_;
  std::optional<WorkNames> work_names_;
  std::optional<SpanTracks> spans_;
  std::vector<DeviceWork> work_;  // of the record
};

}  // namespace

extern const Exporter kChromeExporter;
const Exporter kChromeExporter = {
    .name = "chrome",
    .help = "events for Perfetto, chrome://tracing and HTA",
    .shared_suffix = "json",
    .write = WritesCalls{[](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<CallSink> {
      return std::make_unique<ChromeSink>(out, options);
    }},
};

}  // namespace torchtrace
