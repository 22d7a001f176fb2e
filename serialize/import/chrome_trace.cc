#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/json_member.h"
#include "serialize/forms/op_schema.h"
#include "serialize/import/importer.h"
#include "serialize/import/json_stream.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/unknown_arguments.h"
#include "serialize/model/value.h"
#include "serialize/trace/tables.h"

namespace torchtrace {
namespace {

using nlohmann::json;

constexpr uint32_t kNoThread = UINT32_MAX;
constexpr int64_t kLeastRealtimeNs = 1'000'000'000'000'000'000;  // September 2001
// The value of a field that the format leaves out.
constexpr std::string_view kUnknown = "unknown";

std::string_view Text(const json* value) {
  return value != nullptr && value->is_string() ? std::string_view(value->get_ref<const std::string&>())
                                                : std::string_view();
}

// "aten::add": a namespace and a name, unlike "autograd::engine::evaluate_function: AddmmBackward0".
bool IsOperatorName(std::string_view name) {
  const size_t colons = name.find("::");
  if (colons == name.npos || colons == 0 || colons + 2 == name.size()) return false;
  const auto is_word = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    });
  };
  return is_word(name.substr(0, colons)) && is_word(name.substr(colons + 2));
}

Value Object(std::string_view type) {
  Value value;
  value.tag = ValueTag::kObject;
  value.text = type;
  return value;
}

// Nanoseconds of a time in microseconds; none: not a number, or beyond 292 years.
std::optional<int64_t> Nanoseconds(const json* microseconds) {
  if (microseconds == nullptr || !microseconds->is_number()) return std::nullopt;
  const double ns = microseconds->get<double>() * 1000;
  if (!(std::fabs(ns) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(std::llround(ns));
}

class ChromeTraceSource final : public CallSource, private JsonStreamVisitor {
 public:
  explicit ChromeTraceSource(JsonFile file) : file_(std::move(file)), path_(file_.name) {}

  std::string format() const override { return "PyTorch profiler trace"; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::Status Scan(const Visitor& visit) override {
    if (!loaded_.has_value()) loaded_ = Load();
    if (!loaded_->ok()) return *loaded_;

    std::vector<std::vector<int64_t>> open(threads_.size());  // by thread: the ends of its open calls
    for (const Event& event : events_) {
      const Thread& thread = threads_[event.thread];
      std::vector<int64_t>& ends = open[event.thread];
      while (!ends.empty() && ends.back() <= event.start_ns) ends.pop_back();
      ImportedCall call;
      call.identity = configs_.identity(event.config);
      call.process = thread.process;
      call.thread = thread.number;
      call.depth = static_cast<uint32_t>(ends.size());
      call.start_ns = event.start_ns;
      // Load made sure that no call ends after the one around it.
      call.end_ns = event.end_ns;
      if (absl::Status status = visit(call); !status.ok()) return status;
      ends.push_back(event.end_ns);
    }
    return absl::OkStatus();
  }

 private:
  struct Event {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t config;
    uint32_t thread;  // index into threads_
    uint32_t order;   // of entry, among equal times
  };
  struct Thread {
    uint32_t process = 0;
    uint32_t number = 0;
  };

  absl::Status Load() {
    const absl::StatusOr<JsonStreamEnd> end = ReadJsonStream(
        file_,
        {.array = "traceEvents",
         .bare_array = true,
         .members = {"deviceProperties", "baseTimeNanoseconds", "host_name", "distributedInfo", "record_shapes"}},
        this);
    if (!end.ok()) return end.status();
    if (!end->found_array) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", end->cut ? "the file ends" : "the object ends",
                                                     " at offset ", end->bytes,
                                                     " without \"traceEvents\", which a Chrome trace has"));
    }
    if (end->elements > 0 && !saw_cpu_op_) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": none of its ", end->elements,
                       " events is a cpu_op, which is what PyTorch's profiler writes for an operator"));
    }
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
      if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;  // the outer one first
      return a.order < b.order;
    });
    NestByTime();
    NumberThreads();
    FillInProcesses();
    TakeNotes(*end);
    return absl::OkStatus();
  }

  // Calls of one thread are nested or disjoint. If they overlap in a file, the inner one is made to end early.
  void NestByTime() {
    std::vector<std::vector<int64_t>> open(thread_ids_.size());
    for (Event& event : events_) {
      std::vector<int64_t>& ends = open[event.thread];
      while (!ends.empty() && ends.back() <= event.start_ns) ends.pop_back();
      if (!ends.empty() && event.end_ns > ends.back()) {
        event.end_ns = ends.back();
        ++shortened_;
      }
      ends.push_back(event.end_ns);
    }
  }

  // Processes and their threads in order of first call.
  void NumberThreads() {
    std::map<std::string, uint32_t> process_numbers;
    std::vector<uint32_t> threads_of;  // by process
    std::vector<uint32_t> number(thread_ids_.size(), kNoThread);
    std::vector<const std::pair<const ThreadKey, uint32_t>*> keys(thread_ids_.size());
    for (const auto& entry : thread_ids_) keys[entry.second] = &entry;
    for (Event& event : events_) {
      uint32_t& known = number[event.thread];
      if (known == kNoThread) {
        const auto& [pid, tid] = keys[event.thread]->first;
        const uint32_t process =
            process_numbers.try_emplace(pid, static_cast<uint32_t>(process_numbers.size())).first->second;
        threads_of.resize(process_numbers.size());
        if (process >= processes_.size()) processes_.emplace_back();
        pids_.resize(processes_.size());
        pids_[process] = pid;
        known = static_cast<uint32_t>(threads_.size());
        threads_.push_back({process, threads_of[process]++});
        std::vector<std::string>& names = processes_[process].thread_names;
        const auto name = thread_names_.find(keys[event.thread]->first);
        names.push_back(name == thread_names_.end() ? absl::StrCat("thread ", tid) : name->second);
      }
      event.thread = known;
    }
    thread_ids_.clear();
    thread_names_.clear();
  }

  void FillInProcesses() {
    for (size_t i = 0; i < processes_.size(); ++i) {
      json& metadata = processes_[i].metadata;
      metadata = common_;
      metadata["dialect"] = "torch";
      metadata["levels"] = {2};
      int64_t pid = 0;
      if (absl::SimpleAtoi(pids_[i], &pid)) metadata["pid"] = pid;
      // The process began with its first event, whose time counts from the base.
      const auto start = starts_.find(pids_[i]);
      const int64_t origin = start == starts_.end() ? 0 : std::max<int64_t>(0, start->second);
      metadata["clock"] = {{"unit_ns", 1}, {"origin_units", origin}, {"origin_monotonic_ns", origin}};
      // Without a base the clock is unknown; assume the time of day if the times are plausible for it.
      int64_t realtime = 0;
      if (!__builtin_add_overflow(base_ns_, origin, &realtime) && realtime > kLeastRealtimeNs) {
        metadata["clock"]["origin_realtime_ns"] = realtime;
      }
    }
  }

  void TakeNotes(const JsonStreamEnd& end) {
    processes_[0].metadata["file_end"] = end.cut ? "cut" : "whole";
    if (end.cut) {
      notes_.push_back(absl::StrCat(path_, " ends at offset ", end.bytes, " in the middle; ", end.elements,
                                    " whole events were read"));
    }
    std::vector<std::string> lacks = {"overloads (aten::add is any of aten::add.*)", "outcomes"};
    if (saw_arguments_) {
      lacks.insert(lacks.end(), {"names of arguments", "names of dtypes and other enums",
                                 "arguments that are None, a string, a device or a long list (object(\"unknown\"))"});
      if (saw_tensor_list_) lacks.push_back("dtypes of tensors in lists");
      if (!saw_concrete_) lacks.push_back("values of numbers");
      if (!saw_strides_) lacks.push_back("strides of tensors");
      if (device_ == kUnknown) lacks.push_back("devices of tensors");
    }
    if (without_arguments_ > 0) {
      lacks.push_back(absl::StrCat("the arguments ",
                                   without_arguments_ == events_.size()
                                       ? std::string("of all calls, which record_shapes=True makes the profiler write")
                                       : absl::StrCat("of ", Counted(without_arguments_, "call", "calls"))));
    }
    const std::string last = std::move(lacks.back());
    lacks.pop_back();
    notes_.push_back(
        absl::StrCat(path_, " lacks ", absl::StrJoin(lacks, ", "), " and ", last,
                     "; it has composite operators and what they call, which torchtrace's level 2 doesn't have"));
    if (shortened_ > 0) {
      notes_.push_back(absl::StrCat(path_, " has ", shortened_,
                                    " calls that ended after the call around them; they are shown to end with it"));
    }
  }

  absl::Status Member(const std::string& key, const json& value) override {
    if (key == "deviceProperties") {
      // Without an accelerator everything runs on the CPU.
      if (value.is_array() && value.empty()) device_ = "cpu";
    } else if (key == "baseTimeNanoseconds") {
      if (value.is_number_integer()) base_ns_ = value.get<int64_t>();
    } else if (key == "host_name") {
      if (value.is_string()) common_["host"] = value;
    } else if (key == "distributedInfo") {
      for (const char* const name : {"rank", "world_size"}) {
        if (const json* const number = FindMember(value, name); number != nullptr && number->is_number_integer()) {
          common_[name] = *number;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status Element(const json& event, uint64_t offset) override {
    const absl::Status status = AddEvent(event);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": the event at offset ", offset, ": ", std::string(status.message())));
  }

  absl::Status AddEvent(const json& event) {
    if (!event.is_object()) return absl::InvalidArgumentError("expected an object");
    const std::string_view phase = Text(FindMember(event, "ph"));
    const std::string_view name = Text(FindMember(event, "name"));
    if (phase == "M" && name == "thread_name") {
      const json* const args = FindMember(event, "args");
      const std::string_view thread_name = args != nullptr ? Text(FindMember(*args, "name")) : std::string_view();
      if (!thread_name.empty()) thread_names_[KeyOf(event)] = thread_name;
      return absl::OkStatus();
    }
    const std::string_view category = Text(FindMember(event, "cat"));
    if (phase != "X") return absl::OkStatus();
    if (const std::optional<int64_t> start = Nanoseconds(FindMember(event, "ts"))) NoteStart(event, *start);
    if (category != "cpu_op" && category != "Operator") return absl::OkStatus();
    saw_cpu_op_ = true;
    if (!IsOperatorName(name)) return absl::OkStatus();

    const std::optional<int64_t> start = Nanoseconds(FindMember(event, "ts"));
    const std::optional<int64_t> duration = Nanoseconds(FindMember(event, "dur"));
    if (!start || !duration) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected a number of microseconds as \"", start ? "dur" : "ts", "\""));
    }
    Config config;
    config.level = kDispatchLevel;
    config.api = name;
    const json* const args = FindMember(event, "args");
    if (absl::Status status = ReadArguments(args, &config.args); !status.ok()) return status;
    Event added = {};
    added.start_ns = *start;
    const int64_t length = std::max<int64_t>(*duration, 0);
    added.end_ns = *start > INT64_MAX - length ? INT64_MAX : *start + length;
    added.config = configs_.config_of(configs_.Intern(EncodeConfig(config), ""));
    added.thread = ThreadOf(event);
    added.order = OrderOf(args);
    events_.push_back(added);
    return absl::OkStatus();
  }

  void NoteStart(const json& event, int64_t start_ns) {
    const auto [known, is_new] = starts_.try_emplace(IdText(FindMember(event, "pid")), start_ns);
    known->second = std::min(known->second, start_ns);
  }

  absl::Status ReadArguments(const json* args, std::vector<Value>* out) {
    const json* const dims = args == nullptr ? nullptr : FindMember(*args, "Input Dims");
    const json* const types = args == nullptr ? nullptr : FindMember(*args, "Input type");
    if (dims == nullptr && types == nullptr) {
      ++without_arguments_;
      out->push_back(UnknownArguments());
      return absl::OkStatus();
    }
    if (dims == nullptr || !dims->is_array() || types == nullptr || !types->is_array() ||
        dims->size() != types->size()) {
      return absl::InvalidArgumentError("expected \"Input Dims\" and \"Input type\" as lists of the same length");
    }
    saw_arguments_ = true;
    const json* const strides = ListOf(*args, "Input Strides", dims->size());
    const json* const concrete = ListOf(*args, "Concrete Inputs", dims->size());
    saw_strides_ |= strides != nullptr;
    saw_concrete_ |= concrete != nullptr;
    out->reserve(dims->size());
    for (size_t i = 0; i < dims->size(); ++i) {
      if (!(*types)[i].is_string()) {
        return absl::InvalidArgumentError(absl::StrCat("expected a name in \"Input type\" for input ", i));
      }
      std::optional<Value> value = ReadArgument(Text(&(*types)[i]), (*dims)[i], strides ? &(*strides)[i] : nullptr,
                                                concrete ? Text(&(*concrete)[i]) : std::string_view());
      if (!value) {
        return absl::InvalidArgumentError(
            absl::StrCat("expected lists of integers in \"Input Dims\" and \"Input Strides\" for input ", i));
      }
      out->push_back(std::move(*value));
    }
    return absl::OkStatus();
  }

  static const json* ListOf(const json& args, const char* key, size_t size) {
    const json* const list = FindMember(args, key);
    return list != nullptr && list->is_array() && list->size() == size ? list : nullptr;
  }

  // None: malformed.
  std::optional<Value> ReadArgument(std::string_view type, const json& dims, const json* strides,
                                    std::string_view concrete) {
    if (!concrete.empty()) {
      if (std::optional<Value> value = ParsePrintedValue(concrete)) return value;
      return Object(type.empty() ? kUnknown : type);
    }
    if (type == "TensorList") {
      saw_tensor_list_ = true;
      if (!dims.is_array()) return std::nullopt;
      // The profiler writes a list that is too long like an empty one.
      if (dims.empty()) return Object(type);
      const bool has_strides = strides != nullptr && strides->is_array() && strides->size() == dims.size();
      Value list;
      list.tag = ValueTag::kList;
      list.whole = dims.size();
      for (size_t i = 0; i < dims.size(); ++i) {
        std::optional<Value> item = ReadTensor(kUnknown, dims[i], has_strides ? &(*strides)[i] : nullptr);
        if (!item) return std::nullopt;
        list.items.push_back(std::move(*item));
      }
      return list;
    }
    if (type.empty()) return Object(kUnknown);
    // Names of kinds of values; all other names are dtypes.
    for (const std::string_view kind : {"Scalar", "ScalarList", "Int", "Double", "Bool", "ComplexDouble", "SymInt",
                                        "SymFloat", "SymBool", "GenericList", "String", "None", "Tuple"}) {
      if (type == kind) return Object(type);
    }
    return ReadTensor(type, dims, strides);
  }

  std::optional<Value> ReadTensor(std::string_view cpp_dtype, const json& dims, const json* strides) const {
    Value tensor;
    tensor.tag = ValueTag::kTensor;
    tensor.text = DtypeOfCppName(cpp_dtype);
    if (tensor.text.empty()) {
      tensor.tag = ValueTag::kUndefined;
      return tensor;
    }
    tensor.device = device_;
    if (!ReadJsonDims(dims, &tensor.shape)) return std::nullopt;
    if (strides == nullptr) return tensor;
    if (!ReadJsonDims(*strides, &tensor.strides)) return std::nullopt;
    if (tensor.strides.size() != tensor.shape.size()) {
      // Without strides the layout is sparse.
      tensor.strides.clear();
      tensor.tensor_bits = kTensorHasLayout;
      tensor.layout = kUnknown;
    } else if (IsContiguous(tensor.shape, tensor.strides)) {
      tensor.strides.clear();
    } else {
      tensor.tensor_bits = kTensorHasStride;
    }
    return tensor;
  }

  using ThreadKey = std::pair<std::string, std::string>;  // pid, tid

  static std::string IdText(const json* id) {
    if (id == nullptr) return "";
    if (id->is_number_integer()) return absl::StrCat(id->get<int64_t>());
    return std::string(Text(id));
  }
  static ThreadKey KeyOf(const json& event) {
    return {IdText(FindMember(event, "pid")), IdText(FindMember(event, "tid"))};
  }

  uint32_t ThreadOf(const json& event) {
    ThreadKey key = KeyOf(event);
    if (thread_ids_.empty() || key != last_key_) {
      last_thread_ = thread_ids_.try_emplace(key, static_cast<uint32_t>(thread_ids_.size())).first->second;
      last_key_ = std::move(key);
    }
    return last_thread_;
  }

  // The profiler numbers events by their start.
  static uint32_t OrderOf(const json* args) {
    if (args == nullptr) return 0;
    for (const char* const key : {"Ev Idx", "External id"}) {
      if (const json* const number = FindMember(*args, key); number != nullptr && number->is_number_unsigned()) {
        return static_cast<uint32_t>(std::min<uint64_t>(number->get<uint64_t>(), UINT32_MAX));
      }
    }
    return 0;
  }

  const JsonFile file_;
  const std::string& path_;  // the file's name
  std::optional<absl::Status> loaded_;
  std::vector<Event> events_;
  ConfigTable configs_;
  std::map<ThreadKey, uint32_t> thread_ids_;  // while loading: the values of Event::thread
  std::map<ThreadKey, std::string> thread_names_;
  std::map<std::string, int64_t> starts_;  // of the first event, by pid
  ThreadKey last_key_;
  uint32_t last_thread_ = 0;
  std::vector<Thread> threads_;
  std::vector<ImportedProcess> processes_ = std::vector<ImportedProcess>(1);
  std::vector<std::string> pids_ = std::vector<std::string>(1);  // by process
  json common_ = json::object();                                 // metadata of every process
  std::string device_{kUnknown};                                 // of every tensor
  int64_t base_ns_ = 0;                                          // the base of all times
  std::vector<std::string> notes_;
  bool saw_cpu_op_ = false;
  bool saw_arguments_ = false;
  bool saw_concrete_ = false;
  bool saw_strides_ = false;
  bool saw_tensor_list_ = false;
  uint64_t without_arguments_ = 0;
  uint64_t shortened_ = 0;
};

}  // namespace

bool LooksLikeChromeTrace(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n");
  if (start == head.npos) return false;
  if (head[start] == '[') {
    return head.find("\"ph\"") != head.npos && head.find("\"pid\"") != head.npos;
  }
  if (head[start] != '{') return false;
  // The events may come after a long list of devices.
  for (const std::string_view key : {"\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\""}) {
    if (head.find(key) != head.npos) return true;
  }
  return false;
}

std::unique_ptr<CallSource> MakeChromeTraceSource(JsonFile file) {
  return std::make_unique<ChromeTraceSource>(std::move(file));
}

}  // namespace torchtrace
