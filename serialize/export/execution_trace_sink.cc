// Operators and scopes as an execution trace of PyTorch's ExecutionTraceObserver (Chakra host trace, schema 1.1.1), so
// that et_replay, param and Chakra's converters read them (docs/EXPORT.md).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/op_schema.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/torch_names.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

constexpr char kSchema[] = "1.1.1-chakra.0.0.4";
constexpr size_t kBufferBytes = 64 << 10;
constexpr uint64_t kProcessNode = 1;
// Forward calls that wait for their backward nodes: when there are more, the oldest graphs were never gone through.
constexpr size_t kMostForwardCalls = 1 << 20;

// Texts between which tensors are named: what is equal in all calls of a config is put together once.
struct Pieces {
  std::string last;                                       // behind the last tensor
  std::vector<std::pair<std::string, uint64_t>> tensors;  // the text before it, and its position

  void Append(std::string_view text) { last.append(text); }
  void AppendTensor(uint64_t position) { tensors.emplace_back(std::exchange(last, {}), position); }
  void Append(const Pieces& other) {
    for (const auto& [text, position] : other.tensors) {
      Append(text);
      AppendTensor(position);
    }
    Append(other.last);
  }
};

// A value as the observer tells of it.
struct Told {
  Pieces value;
  std::string shape = "[]";
  std::string type;  // without quotes
  std::string stride = "[]";
};

std::string Quoted(std::string_view text) { return DumpJson(std::string(text)); }

std::string DimsText(const std::vector<Dim>& dims) {
  if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return !dim.has_value(); })) return "[]";
  return absl::StrCat(
      "[", absl::StrJoin(dims, ",", [](std::string* out, const Dim& dim) { absl::StrAppend(out, *dim); }), "]");
}

// Tells of values; tensors get their positions in the order in which they are told of.
class Teller {
 public:
  Told Tell(const Value& value) {
    switch (value.tag) {
      case ValueTag::kTensor:
        return Tensor(value);
      case ValueTag::kUndefined:
        return Simple("Tensor(nullptr (uninitialized))", R"([0,0,0,0,0,""])");
      case ValueTag::kNone:
        return Simple("None", R"("<None>")");
      case ValueTag::kTrue:
        return Simple("Bool", "true");
      case ValueTag::kFalse:
        return Simple("Bool", "false");
      case ValueTag::kInt:
        return Simple("Int", absl::StrCat(value.integer));
      case ValueTag::kBigInt:
        return Simple("Int", value.text);
      case ValueTag::kFloat:
        return Simple("Double", std::isfinite(value.real) ? FormatFloat(value.real)
                                : std::isnan(value.real)  ? R"("nan")"
                                : value.real > 0          ? R"("inf")"
                                                          : R"("-inf")");
      case ValueTag::kComplex:
        return Simple("ComplexDouble", R"("<ComplexDouble>")");
      case ValueTag::kString:
        return Simple("String", Quoted(value.text));
      case ValueTag::kDevice:
        return Simple("Device", Quoted(value.text));
      case ValueTag::kDtype:
      case ValueTag::kLayout:
      case ValueTag::kMemoryFormat:
        return Enum(value);
      case ValueTag::kGenerator:
        return Simple("Generator", R"("<Generator>")");
      case ValueTag::kStorage:
        return Simple("Storage", R"("<Storage>")");
      case ValueTag::kSymbol:
        return Simple(value.text, Quoted(absl::StrCat("<", value.text, ">")));
      case ValueTag::kList:
      case ValueTag::kSize:
        return Items("GenericList", value);
      case ValueTag::kTuple:
        return Items("Tuple", value);
      case ValueTag::kDict:
        Skip(value);
        return Simple("GenericDict", R"("<GenericDict>")");
      default:
        Skip(value);
        return Simple("Object", R"("<Object>")");
    }
  }

 private:
  static Told Simple(std::string_view type, std::string_view value) {
    Told told;
    told.type = type;
    told.value.Append(value);
    return told;
  }

  Told Tensor(const Value& value) {
    Told told;
    told.type = absl::StrCat("Tensor(", std::string(CppNameOfDtype(value.text)), ")");
    told.shape = DimsText(value.shape);
    const bool strided = (value.tensor_bits & (kTensorHasLayout | kTensorShapeUnknown)) == 0;
    if (strided && told.shape != "[]") told.stride = DimsText(StridesOf(value));
    int64_t elements = 1;
    for (const Dim& dim : value.shape) {
      if (__builtin_mul_overflow(elements, std::max<int64_t>(dim.value_or(0), 0), &elements)) elements = 0;
    }
    told.value.Append("[");
    told.value.AppendTensor(tensors_++);
    // As of a tensor without a storage: nothing is known of its memory.
    if (!strided) {
      told.value.Append(R"(,0,0,""])");
    } else {
      told.value.Append(absl::StrCat(",", elements, ",", BytesOfDtype(value.text), ",", Quoted(value.device), "]"));
    }
    return told;
  }

  // PyTorch boxes them as numbers.
  static Told Enum(const Value& value) {
    const auto by_number = value.tag == ValueTag::kDtype    ? DtypeOfNumber
                           : value.tag == ValueTag::kLayout ? LayoutOfNumber
                                                            : MemoryFormatOfNumber;
    for (int64_t number = 0; !by_number(number).empty(); ++number) {
      if (by_number(number) == value.text) return Simple("Int", absl::StrCat(number));
    }
    return Simple("Int", "-1");
  }

  Told Items(std::string_view kind, const Value& value) {
    Told told;
    std::vector<std::string> shapes, types, strides;
    told.value.Append("[");
    for (const Value& item : value.items) {
      const Told one = Tell(item);
      if (!types.empty()) told.value.Append(",");
      told.value.Append(one.value);
      shapes.push_back(one.shape);
      types.push_back(one.type);
      strides.push_back(one.stride);
    }
    told.value.Append("]");
    told.type = absl::StrCat(std::string(kind), "[", absl::StrJoin(types, ","), "]");
    told.shape = absl::StrCat("[", absl::StrJoin(shapes, ","), "]");
    told.stride = absl::StrCat("[", absl::StrJoin(strides, ","), "]");
    return told;
  }

  void Skip(const Value& value) {
    if (value.tag == ValueTag::kTensor) ++tensors_;
    for (const Value& item : value.items) Skip(item);
  }

  uint64_t tensors_ = 0;
};

// `"inputs":{...}` up to its closing brace.
Pieces ListTold(const char* name, const std::vector<const Told*>& values) {
  Pieces pieces;
  pieces.Append(absl::StrCat("\"", name, "\":{\"values\":["));
  std::vector<std::string> shapes, types, strides;
  for (const Told* const told : values) {
    if (!types.empty()) pieces.Append(",");
    pieces.Append(told->value);
    shapes.push_back(told->shape);
    types.push_back(Quoted(told->type));
    strides.push_back(told->stride);
  }
  pieces.Append(absl::StrCat("],\"shapes\":[", absl::StrJoin(shapes, ","), "],\"types\":[", absl::StrJoin(types, ","),
                             "],\"strides\":[", absl::StrJoin(strides, ","), "]}"));
  return pieces;
}

class ExecutionTraceSink final : public CallSink {
 public:
  ExecutionTraceSink(std::ostream* out, const ExportOptions&) : out_(out) {}

  absl::Status Begin(const Trace& trace, std::string_view label) override {
    if (begun_) {
      return absl::InvalidArgumentError(absl::StrCat("an execution trace is of one process, and so of one trace; ",
                                                     std::string(label), " is another"));
    }
    begun_ = true;
    trace_ = &trace;
    const std::vector<ProcessInfo>& processes = trace.processes();
    const auto calls = [](const ProcessInfo& process) { return process.calls != 0; };
    const auto first = std::find_if(processes.begin(), processes.end(), calls);
    process_ = first == processes.end() ? 0 : static_cast<uint32_t>(first - processes.begin());
    level_ = kDispatchLevel;
    for (ConfigId id = 0; id < trace.config_count(); ++id) {
      if (ReadConfigHead(trace.identity(id)).level == kRecordLevel) level_ = kRecordLevel;
    }
    ReadSchemas();
    WriteHead();
    return Flush(kBufferBytes);
  }

  absl::Status Add(const CallRecord& record) override {
    if (record.level != level_ || record.process != process_) {
      if (record.kind == CallRecord::kEnter) ++(record.process != process_ ? other_processes_ : other_levels_);
      return absl::OkStatus();
    }
    last_ns_ = std::max(last_ns_, record.time_ns);
    Thread& thread = ThreadOf(record);
    if (record.kind == CallRecord::kEnter) {
      Open& open = thread.open.emplace_back();
      open.call = record.call;
      open.config = record.config;
      open.facts = record.facts;
      open.id = NewId();
      open.parent = thread.open.size() > 1 ? thread.open[thread.open.size() - 2].id : thread.node;
      open.forward = ForwardOf(record.facts, open.id);
      open.notes = ReadTensorNotes(record.notes);
      return absl::OkStatus();
    }
    // Of calls in it the end may be lost.
    while (!thread.open.empty() && thread.open.back().call > record.call) CloseInnermost(&thread, {});
    if (thread.open.empty() || thread.open.back().call != record.call) return absl::OkStatus();
    CloseInnermost(&thread, record.result);
    return Flush(kBufferBytes);
  }

  absl::Status End() override {
    for (auto& [number, thread] : threads_) {
      while (!thread.open.empty()) CloseInnermost(&thread, {});
    }
    trace_ = nullptr;
    return Flush(0);
  }

  absl::Status Finish() override {
    if (!begun_) return absl::InvalidArgumentError("an execution trace is of one trace; none is given");
    Separate();
    WritePlainNode(kProcessNode, "process", 0);
    absl::StrAppend(&buffer_, "\n],\"finish_ts\":", Milliseconds(last_ns_), "}\n");
    if (absl::Status s = Flush(0); !s.ok()) return s;
    return FinishStream(out_);
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    const auto tell = [&](uint64_t count, const char* why) {
      if (count != 0) notes.push_back(absl::StrCat("et: ", Counted(count, "call", "calls"), " ", why));
    };
    tell(other_levels_, level_ == kRecordLevel ? "left out: not of level 4" : "left out: not of level 2");
    tell(other_processes_, "left out: of other processes than the first, and an execution trace is of one");
    tell(without_schema_, "of operators without a schema: the trace doesn't tell it");
    if (without_identity_) {
      notes.emplace_back("et: which tensor is which is not in the trace (run --ids): each stands there as a new one");
    }
    return notes;
  }

 private:
  // What the nodes of a config have in common.
  struct Spelled {
    bool known = false;
    bool schema_missing = false;
    std::string name;  // quoted
    Pieces inputs;
    std::string schema;  // quoted
    std::string kernel_backend = "\"\"";
    std::string kernel_file = "\"\"";
  };
  struct Open {
    uint64_t call = 0;
    ConfigId config = 0;
    uint64_t id = 0;
    uint64_t parent = 0;
    uint64_t forward = 0;
    RecordFacts facts;
    std::vector<TensorNote> notes;
  };
  struct Thread {
    uint64_t node = 0;
    uint64_t number = 0;  // as PyTorch numbers it, where that is known
    std::vector<Open> open;
  };

  uint64_t NewId() { return next_id_++; }
  static int64_t Milliseconds(int64_t ns) { return std::max<int64_t>(ns, 0) / 1'000'000; }

  void ReadSchemas() {
    for (const ProcessInfo& process : trace_->processes()) {
      const auto schemas = process.metadata->find("schemas");
      if (schemas == process.metadata->end() || !schemas->is_object()) continue;
      for (const auto& [name, schema] : schemas->items()) {
        if (schema.is_string()) schemas_.try_emplace(name, schema.get<std::string>());
      }
    }
  }

  void WriteHead() {
    int64_t pid = 0, start_ns = 0, start_realtime_ns = 0;
    if (process_ < trace_->processes().size()) {
      const ProcessInfo& info = trace_->processes()[process_];
      pid = info.known.pid.value_or(0);
      if (info.known.has_clock) {
        start_ns = ReadProcessClock(*info.metadata).origin_ns;
        start_realtime_ns = info.known.origin_realtime_ns.value_or(0);
      }
    }
    last_ns_ = start_ns;
    const auto seconds = static_cast<time_t>(start_realtime_ns / 1'000'000'000);
    tm local = {};
    localtime_r(&seconds, &local);
    char time[32] = "";
    std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &local);
    buffer_ = absl::StrCat(R"({"schema":")", kSchema, R"(","pid":)", pid, R"(,"time":")", time, R"(","start_ts":)",
                           Milliseconds(start_ns), ",\"nodes\":[");
  }

  Thread& ThreadOf(const CallRecord& record) {
    Thread& thread = threads_[record.thread];
    if (thread.node != 0) return thread;
    thread.node = NewId();
    thread.number = record.facts.thread != 0 ? record.facts.thread : record.thread + uint64_t{1};
    Separate();
    WritePlainNode(thread.node, "thread", thread.number);
    return thread;
  }

  // The node of the call that a backward one belongs to; else this one is remembered as such.
  uint64_t ForwardOf(const RecordFacts& facts, uint64_t id) {
    if (facts.sequence < 0) return 0;
    if (facts.forward_thread == 0) {
      if (forward_.size() >= kMostForwardCalls) forward_.clear();
      forward_[{facts.thread, facts.sequence}] = id;
      return 0;
    }
    const auto found = forward_.find({facts.forward_thread, facts.sequence});
    return found == forward_.end() ? 0 : found->second;
  }

  const Spelled& Spell(ConfigId id) {
    if (id >= spelled_.size()) spelled_.resize(id + id / 2 + 16);
    Spelled& spelled = spelled_[id];
    if (spelled.known) return spelled;
    spelled.known = true;
    Config config = ReadableConfig(trace_->identity(id));
    const std::string_view packet = OperatorPacket(config.api);
    spelled.name = Quoted(packet.empty() ? std::string_view(config.api) : packet);

    // In the order in which positions are counted, which is then changed to the schema's.
    Teller teller;
    std::vector<Told> told;
    for (const Value& value : config.args) told.push_back(teller.Tell(value));
    for (const auto& [name, value] : config.kwargs) told.push_back(teller.Tell(value));
    std::vector<const Told*> inputs;
    std::vector<Told> defaults;
    const auto schema = schemas_.find(config.api);
    std::optional<OpSchema> parsed;
    if (schema != schemas_.end()) parsed = ParseOpSchema(schema->second);
    spelled.schema = Quoted(schema == schemas_.end() ? "" : schema->second);
    spelled.schema_missing = schema == schemas_.end() && !packet.empty();
    const std::optional<std::vector<ArgumentSource>> sources =
        parsed.has_value() ? SourcesOfArguments(*parsed, config) : std::nullopt;
    if (sources.has_value()) {
      defaults.reserve(sources->size());
      for (const ArgumentSource& source : *sources) {
        if (source.index.has_value()) {
          inputs.push_back(&told[*source.index]);
        } else {
          defaults.push_back(teller.Tell(source.default_value));
          inputs.push_back(&defaults.back());
        }
      }
    } else {
      for (size_t i = 0; i < config.args.size(); ++i) inputs.push_back(&told[i]);
      AddKernel(config, told, &spelled, &inputs);
    }
    spelled.inputs = ListTold("inputs", inputs);
    return spelled;
  }

  // Of a Triton kernel: its file, without its folder, and in place of more inputs its grid and stream.
  static void AddKernel(const Config& config, const std::vector<Told>& told, Spelled* spelled,
                        std::vector<const Told*>* inputs) {
    const auto find = [&](std::string_view name) -> std::optional<size_t> {
      for (size_t i = 0; i < config.kwargs.size(); ++i) {
        if (config.kwargs[i].first == name) return i;
      }
      return std::nullopt;
    };
    const auto text = [&](std::string_view name) {
      const std::optional<size_t> i = find(name);
      return i.has_value() ? std::string_view(config.kwargs[*i].second.text) : std::string_view();
    };
    spelled->kernel_backend = Quoted(text("kernel_backend"));
    const std::string_view file = text("kernel_file");
    spelled->kernel_file = Quoted(file.substr(file.rfind('/') + 1));
    for (const char* const name : {"grid", "stream"}) {
      if (const std::optional<size_t> i = find(name)) inputs->push_back(&told[config.args.size() + *i]);
    }
  }

  const Pieces& SpellResult(std::string_view values) {
    if (results_.size() > kMostResults) results_.clear();
    const auto [found, is_new] = results_.try_emplace(std::string(values));
    if (is_new) {
      Teller teller;
      std::vector<Told> told;
      for (const Value& value : ReadableResult(values)) told.push_back(teller.Tell(value));
      std::vector<const Told*> outputs;
      for (const Told& one : told) outputs.push_back(&one);
      found->second = ListTold("outputs", outputs);
    }
    return found->second;
  }

  // Tensors as `id,storage,offset`.
  void Write(const Pieces& pieces, const std::vector<TensorNote>& notes) {
    auto note = notes.begin();
    for (const auto& [text, position] : pieces.tensors) {
      buffer_ += text;
      while (note != notes.end() && note->position < position) ++note;
      if (note != notes.end() && note->position == position && note->identity) {
        absl::StrAppend(&buffer_, note->identity->tensor, ",", note->identity->storage, ",", note->identity->offset);
      } else {
        without_identity_ = true;
        ++unknown_tensors_;
        absl::StrAppend(&buffer_, unknown_tensors_, ",", unknown_tensors_, ",0");
      }
    }
    buffer_ += pieces.last;
  }

  void CloseInnermost(Thread* thread, const CallResult& result) {
    const Open open = std::move(thread->open.back());
    thread->open.pop_back();
    const Spelled& spelled = Spell(open.config);
    without_schema_ += spelled.schema_missing;
    Separate();
    absl::StrAppend(&buffer_, R"({"id":)", open.id, R"(,"name":)", spelled.name, R"(,"ctrl_deps":)", open.parent, ",");
    Write(spelled.inputs, open.notes);
    buffer_ += ",";
    Write(SpellResult(result.values), ReadTensorNotes(result.notes));
    std::string ranges;
    for (const TensorNote& note : open.notes) {
      if (!note.range) continue;
      absl::StrAppend(&ranges, ranges.empty() ? "{" : ",", "\"", note.position, "\":[", note.range->least, ",",
                      note.range->most, "]");
    }
    if (!ranges.empty()) ranges += "}";
    const RecordFacts& facts = open.facts;
    WriteAttributes(facts.id, open.forward, facts.sequence, facts.scope, thread->number, facts.forward_thread,
                    spelled.schema, spelled.kernel_backend, spelled.kernel_file, Quoted(ranges));
  }

  void WriteAttributes(uint64_t record_id, uint64_t forward, int64_t sequence, uint64_t scope, uint64_t thread,
                       uint64_t forward_thread, std::string_view schema, std::string_view kernel_backend,
                       std::string_view kernel_file, std::string_view ranges) {
    buffer_ += R"(,"attrs":[)";
    const char* separator = "";
    const auto add = [&](const char* name, const char* type, const auto& value) {
      absl::StrAppend(&buffer_, std::exchange(separator, ","), R"({"name":")", name, R"(","type":")", type,
                      R"(","value":)", value, "}");
    };
    add("rf_id", "uint64", record_id);
    add("fw_parent", "uint64", forward);
    add("seq_id", "int64", sequence);
    add("scope", "uint64", scope);
    add("tid", "uint64", thread);
    add("fw_tid", "uint64", forward_thread);
    add("op_schema", "string", std::string(schema));
    add("kernel_backend", "string", std::string(kernel_backend));
    add("kernel_file", "string", std::string(kernel_file));
    add("tensor_range", "string", std::string(ranges));
    buffer_ += "]}";
  }

  // Of the process or a thread, around all others.
  void WritePlainNode(uint64_t id, const char* what, uint64_t thread) {
    static const std::string* const kNothing =
        new std::string(ListTold("inputs", {}).last + "," + ListTold("outputs", {}).last);
    absl::StrAppend(&buffer_, R"({"id":)", id, R"(,"name":"[pytorch|profiler|execution_trace|)", what,
                    R"(]","ctrl_deps":)", kProcessNode, ",", *kNothing);
    WriteAttributes(0, 0, -1, kUserScope, thread, 0, "\"\"", "\"\"", "\"\"", "\"\"");
  }

  void Separate() {
    buffer_ += first_ ? "\n" : ",\n";
    first_ = false;
  }

  absl::Status Flush(size_t most) {
    if (buffer_.size() < most) return absl::OkStatus();
    out_->write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
    return StreamStatus(*out_);
  }

  static constexpr size_t kMostResults = 100'000;

  std::ostream* const out_;
  std::string buffer_;
  bool begun_ = false;
  bool first_ = true;
  const Trace* trace_ = nullptr;
  uint32_t process_ = 0;
  int level_ = kRecordLevel;
  int64_t last_ns_ = 0;
  uint64_t next_id_ = kProcessNode + 1;
  // Tensors of which nothing is known, by numbers that no other has: Chakra's storage ids are of 63 bits.
  uint64_t unknown_tensors_ = uint64_t{1} << 62;
  bool without_identity_ = false;
  uint64_t other_levels_ = 0;
  uint64_t other_processes_ = 0;
  uint64_t without_schema_ = 0;
  absl::flat_hash_map<std::string, std::string> schemas_;  // by operator
  std::map<uint32_t, Thread> threads_;
  std::vector<Spelled> spelled_;                                         // by ConfigId
  absl::flat_hash_map<std::string, Pieces> results_;                     // by their bytes
  absl::flat_hash_map<std::pair<uint64_t, int64_t>, uint64_t> forward_;  // nodes by thread and sequence number
};

}  // namespace

extern const Exporter kExecutionTraceExporter;
const Exporter kExecutionTraceExporter = {
    .name = "et",
    .help = "execution trace of PyTorch's ExecutionTraceObserver (et_replay, Chakra)",
    .make_calls = [](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<CallSink> {
      return std::make_unique<ExecutionTraceSink>(out, options);
    },
};

}  // namespace torchtrace
