// Operators and scopes as an execution trace of PyTorch's ExecutionTraceObserver (Chakra host trace, schema 1.1.1), so
// that et_replay, param and Chakra's converters read them (docs/EXPORT.md).

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
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
#include "serialize/base/json_member.h"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/list_writer.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/op_schema.h"
#include "serialize/log/log_metadata.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"
#include "serialize/model/unknown_arguments.h"
#include "serialize/trace/node_makers.h"
#include "serialize/trace/run_facts.h"

namespace torchtrace {
namespace {

constexpr char kSchema[] = "1.1.1-chakra.0.0.4";
constexpr uint64_t kProcessNode = 1;

// JSON with gaps for the tensors: the parts that all calls of a config share are built once.
struct Pieces {
  std::string last;                                       // after the last tensor
  std::vector<std::pair<std::string, uint64_t>> tensors;  // the text before a tensor, and its position

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

// A value as the observer writes it.
struct Told {
  Pieces value;
  std::string shape = "[]";
  std::string type;  // without quotes
  std::string stride = "[]";
};

std::string DimsText(const std::vector<Dim>& dims) {
  if (std::any_of(dims.begin(), dims.end(), [](const Dim& dim) { return !dim.has_value(); })) return "[]";
  return absl::StrCat(
      "[", absl::StrJoin(dims, ",", [](std::string* out, const Dim& dim) { absl::StrAppend(out, *dim); }), "]");
}

// Formats values as the observer does. Tensors get their positions in the order in which they are formatted.
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
        return Simple("String", QuotedJson(value.text));
      case ValueTag::kDevice:
        return Simple("Device", QuotedJson(value.text));
      case ValueTag::kDtype:
      case ValueTag::kLayout:
      case ValueTag::kMemoryFormat:
        return Enum(value);
      case ValueTag::kGenerator:
        return Simple("Generator", R"("<Generator>")");
      case ValueTag::kStorage:
        return Simple("Storage", R"("<Storage>")");
      case ValueTag::kSymbol:
        return Simple(value.text, QuotedJson(absl::StrCat("<", value.text, ">")));
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
        return IsKind(value) ? Simple(value.text, QuotedJson(absl::StrCat("<", value.text, ">")))
                             : Simple("Object", R"("<Object>")");
    }
  }

 private:
  // An object imported from an execution trace, which contains only its kind.
  static bool IsKind(const Value& value) {
    constexpr std::string_view kKinds[] = {"ComplexDouble", "GenericDict", "Storage", "PyObject", "Stream", "Capsule"};
    return value.tag == ValueTag::kObject &&
           std::find(std::begin(kKinds), std::end(kKinds), value.text) != std::end(kKinds);
  }

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
    // Its memory is unknown; write it like a tensor without a storage.
    if (!strided) {
      told.value.Append(R"(,0,0,""])");
    } else {
      told.value.Append(absl::StrCat(",", elements, ",", BytesOfDtype(value.text), ",", QuotedJson(value.device), "]"));
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
    types.push_back(QuotedJson(told->type));
    strides.push_back(told->stride);
  }
  pieces.Append(absl::StrCat("],\"shapes\":[", absl::StrJoin(shapes, ","), "],\"types\":[", absl::StrJoin(types, ","),
                             "],\"strides\":[", absl::StrJoin(strides, ","), "]}"));
  return pieces;
}

class ExecutionTraceSink final : public CallSink {
 public:
  ExecutionTraceSink(std::ostream* out, const ExportOptions&) : out_(out) {}

  absl::Status Begin(Trace* trace, std::string_view label) override {
    if (begun_) {
      return absl::InvalidArgumentError(
          absl::StrCat("an execution trace covers one process: leave out ", std::string(label)));
    }
    begun_ = true;
    trace_ = trace;
    const std::vector<ProcessInfo>& processes = trace->processes();
    const auto calls = [](const ProcessInfo& process) { return process.calls != 0; };
    const auto first = std::find_if(processes.begin(), processes.end(), calls);
    process_ = first == processes.end() ? 0 : static_cast<uint32_t>(first - processes.begin());
    level_ = kDispatchLevel;
    for (ConfigId id = 0; id < trace->config_count(); ++id) {
      if (ReadConfigHead(trace->identity(id)).level == kRecordLevel) level_ = kRecordLevel;
    }
    ReadSchemas();
    WriteHead();
    return out_.WriteBlocks();
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
      if (const uint64_t* const forward = forward_.Find(record.process, record.facts)) open.forward = *forward;
      forward_.Add(record.process, record.facts, open.id);
      open.notes = record.notes;
      return absl::OkStatus();
    }
    // The end of a call inside this one may be lost.
    while (!thread.open.empty() && thread.open.back().call > record.call) CloseInnermost(&thread, {});
    if (thread.open.empty() || thread.open.back().call != record.call) return absl::OkStatus();
    CloseInnermost(&thread, record.result);
    return out_.WriteBlocks();
  }

  absl::Status End() override {
    for (auto& [number, thread] : threads_) {
      while (!thread.open.empty()) CloseInnermost(&thread, {});
    }
    trace_ = nullptr;
    return out_.Write();
  }

  absl::Status Finish() override {
    if (!begun_) return absl::InvalidArgumentError("an execution trace needs a trace; none is given");
    out_.BeginItem();
    WritePlainNode(kProcessNode, "process", 0);
    absl::StrAppend(&out_.text, "\n],\"finish_ts\":", std::max(finish_ms_, Milliseconds(last_ns_)), "}\n");
    return out_.Finish();
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    const auto tell = [&](uint64_t count, const char* why) {
      if (count != 0) notes.push_back(absl::StrCat("et: ", Counted(count, "call", "calls"), " ", why));
    };
    tell(other_levels_, level_ == kRecordLevel ? "left out: not of level 4" : "left out: not of level 2");
    tell(other_processes_, "left out: not of the first process; an execution trace covers only one");
    tell(without_schema_, "of operators without a schema: the trace doesn't have it");
    if (without_identity_) {
      notes.emplace_back("et: the trace has no tensor identities (run --ids): each tensor is written as a new one");
    }
    return notes;
  }

 private:
  // What all nodes of a config share.
  struct Spelled {
    bool known = false;
    bool schema_missing = false;
    std::string head;  // after the node's id: its name
    Pieces inputs;
    std::string tail;  // the last attributes
  };
  struct Open {
    uint64_t call = 0;
    ConfigId config = 0;
    uint64_t id = 0;
    uint64_t parent = 0;
    uint64_t forward = 0;
    RecordFacts facts;
    std::string notes;  // tensor_notes.h
  };
  struct Thread {
    uint64_t node = 0;
    uint64_t number = 0;  // PyTorch's, if known
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
    int64_t pid = 0, start_ms = 0;
    std::string time = LocalTime(0);  // if the time is unknown
    if (process_ < trace_->processes().size()) {
      const ProcessInfo& info = trace_->processes()[process_];
      pid = info.known.pid.value_or(0);
      if (info.known.has_clock) {
        last_ns_ = ReadProcessClock(*info.metadata).origin_ns;
        start_ms = Milliseconds(last_ns_);
        time = LocalTime(info.known.origin_realtime_ns.value_or(0));
      } else if (const nlohmann::json* const told = FindMember(*info.metadata, "execution_trace"); told != nullptr) {
        // The trace was imported from an execution trace.
        if (std::string said = TextMember(*told, "time"); !said.empty()) time = std::move(said);
        start_ms = IntMember(*told, "start_ts").value_or(0);
        finish_ms_ = IntMember(*told, "finish_ts").value_or(start_ms);
      }
    }
    out_.text = absl::StrCat(R"({"schema":")", kSchema, R"(","pid":)", pid, R"(,"time":)", QuotedJson(time),
                             R"(,"start_ts":)", start_ms, ",\"nodes\":[");
  }

  static std::string LocalTime(int64_t realtime_ns) {
    const auto seconds = static_cast<time_t>(realtime_ns / 1'000'000'000);
    tm local = {};
    localtime_r(&seconds, &local);
    char time[32] = "";
    std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &local);
    return time;
  }

  Thread& ThreadOf(const CallRecord& record) {
    Thread& thread = threads_[record.thread];
    if (thread.node != 0) return thread;
    thread.node = NewId();
    thread.number = record.facts.thread != 0 ? record.facts.thread : record.thread + uint64_t{1};
    out_.BeginItem();
    WritePlainNode(thread.node, "thread", thread.number);
    return thread;
  }

  const Spelled& Spell(ConfigId id) {
    if (id >= spelled_.size()) spelled_.resize(id + id / 2 + 16);
    Spelled& spelled = spelled_[id];
    if (spelled.known) return spelled;
    spelled.known = true;
    Config config = ReadableConfig(trace_->identity(id));
    const std::string_view packet = OperatorPacket(config.api);
    spelled.head = absl::StrCat(",\"name\":", QuotedJson(packet.empty() ? std::string_view(config.api) : packet),
                                ",\"ctrl_deps\":");

    // First in the order that numbers the tensors, then in the schema's order.
    Teller teller;
    std::vector<Told> told;
    for (const Value& value : config.args) told.push_back(teller.Tell(value));
    for (const auto& [name, value] : config.kwargs) told.push_back(teller.Tell(value));
    std::vector<const Told*> inputs;
    std::vector<Told> defaults;
    const auto schema = schemas_.find(config.api);
    std::optional<OpSchema> parsed;
    if (schema != schemas_.end()) parsed = ParseOpSchema(schema->second);
    spelled.schema_missing = schema == schemas_.end() && !packet.empty();
    const bool known = !HasUnknownArguments(config);
    const std::optional<std::vector<ArgumentSource>> sources =
        parsed.has_value() && known ? SourcesOfArguments(*parsed, config) : std::nullopt;
    Kernel kernel;
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
    } else if (known) {
      for (size_t i = 0; i < config.args.size(); ++i) inputs.push_back(&told[i]);
      kernel = KernelOf(config);
      for (const size_t keyword : kernel.inputs) inputs.push_back(&told[config.args.size() + keyword]);
    }
    spelled.tail = Tail(schema == schemas_.end() ? std::string_view() : schema->second, kernel);
    spelled.inputs = ListTold("inputs", inputs);
    return spelled;
  }

  // A Triton kernel: its file without the folder, and its grid and stream, which become its last inputs.
  struct Kernel {
    std::string_view backend;
    std::string_view file;
    std::vector<size_t> inputs;  // keywords
  };
  static Kernel KernelOf(const Config& config) {
    Kernel kernel;
    for (const auto& [name, value] : config.kwargs) {
      if (name == "kernel_backend") kernel.backend = value.text;
      if (name == "kernel_file") kernel.file = std::string_view(value.text).substr(value.text.rfind('/') + 1);
    }
    for (const char* const name : {"grid", "stream"}) {
      for (size_t i = 0; i < config.kwargs.size(); ++i) {
        if (config.kwargs[i].first == name) kernel.inputs.push_back(i);
      }
    }
    return kernel;
  }

  const Pieces& SpellResult(std::string_view values) {
    const auto known = results_.find(absl::string_view(values.data(), values.size()));
    if (known != results_.end()) return known->second;
    if (results_.size() > kMostResults) results_.clear();
    Teller teller;
    std::vector<Told> told;
    for (const Value& value : ReadableResult(values)) told.push_back(teller.Tell(value));
    std::vector<const Told*> outputs;
    for (const Told& one : told) outputs.push_back(&one);
    return results_[std::string(values)] = ListTold("outputs", outputs);
  }

  // Writes tensors as `id,storage,offset`.
  void Write(const Pieces& pieces, const std::vector<TensorNote>& notes) {
    auto note = notes.begin();
    for (const auto& [text, position] : pieces.tensors) {
      out_.text += text;
      while (note != notes.end() && note->position < position) ++note;
      if (note != notes.end() && note->position == position && note->identity) {
        absl::StrAppend(&out_.text, note->identity->tensor, ",", note->identity->storage, ",", note->identity->offset);
      } else {
        without_identity_ = true;
        ++unknown_tensors_;
        absl::StrAppend(&out_.text, unknown_tensors_, ",", unknown_tensors_, ",0");
      }
    }
    out_.text += pieces.last;
  }

  void CloseInnermost(Thread* thread, const CallResult& result) {
    const Open open = std::move(thread->open.back());
    thread->open.pop_back();
    const Spelled& spelled = Spell(open.config);
    without_schema_ += spelled.schema_missing;
    out_.BeginItem();
    absl::StrAppend(&out_.text, "{\"id\":", open.id, spelled.head, open.parent, ",");
    ReadTensorNotes(open.notes, &notes_);
    Write(spelled.inputs, notes_);
    std::string ranges;
    for (const TensorNote& note : notes_) {
      if (!note.range) continue;
      absl::StrAppend(&ranges, ranges.empty() ? "{" : ",", "\"", note.position, "\":[", note.range->least, ",",
                      note.range->most, "]");
    }
    if (!ranges.empty()) ranges += "}";
    out_.text += ',';
    ReadTensorNotes(result.notes, &notes_);
    Write(SpellResult(result.values), notes_);
    WriteAttributes(open.facts, open.forward, thread->number, spelled.tail, ranges);
  }

  void WriteAttributes(const RecordFacts& facts, uint64_t forward, uint64_t thread, const std::string& tail,
                       const std::string& ranges) {
    // An operator that autograd's engine calls between nodes is a function for PyTorch.
    const bool is_function = facts.scope == kBackwardScope && facts.forward_thread == 0;
    absl::StrAppend(&out_.text, R"(,"attrs":[{"name":"rf_id","type":"uint64","value":)", facts.id,
                    R"(},{"name":"fw_parent","type":"uint64","value":)", forward,
                    R"(},{"name":"seq_id","type":"int64","value":)", facts.sequence,
                    R"(},{"name":"scope","type":"uint64","value":)", is_function ? kFunctionScope : facts.scope,
                    R"(},{"name":"tid","type":"uint64","value":)", thread,
                    R"(},{"name":"fw_tid","type":"uint64","value":)", facts.forward_thread, tail);
    out_.text += ranges.empty() ? "\"\"" : QuotedJson(ranges);
    out_.text += "}]}";
  }

  // The attributes that all nodes of a config have, up to the value of the last.
  static std::string Tail(std::string_view schema, const Kernel& kernel) {
    return absl::StrCat(R"(},{"name":"op_schema","type":"string","value":)", QuotedJson(schema),
                        R"(},{"name":"kernel_backend","type":"string","value":)", QuotedJson(kernel.backend),
                        R"(},{"name":"kernel_file","type":"string","value":)", QuotedJson(kernel.file),
                        R"(},{"name":"tensor_range","type":"string","value":)");
  }

  // The node of the process or of a thread, which contains all others.
  void WritePlainNode(uint64_t id, const char* what, uint64_t thread) {
    static const std::string* const kNothing =
        new std::string(ListTold("inputs", {}).last + "," + ListTold("outputs", {}).last);
    absl::StrAppend(&out_.text, R"({"id":)", id, R"(,"name":"[pytorch|profiler|execution_trace|)", what,
                    R"(]","ctrl_deps":)", kProcessNode, ",", *kNothing);
    RecordFacts facts;
    facts.scope = kUserScope;
    WriteAttributes(facts, 0, thread, Tail({}, {}), {});
  }

  static constexpr size_t kMostResults = 100'000;

  ListWriter out_;
  bool begun_ = false;
  const Trace* trace_ = nullptr;
  uint32_t process_ = 0;
  int level_ = kRecordLevel;
  int64_t last_ns_ = 0;
  int64_t finish_ms_ = 0;  // from the imported execution trace
  uint64_t next_id_ = kProcessNode + 1;
  // Numbers unknown tensors so that they collide with no other: Chakra's storage ids have 63 bits.
  uint64_t unknown_tensors_ = uint64_t{1} << 62;
  bool without_identity_ = false;
  uint64_t other_levels_ = 0;
  uint64_t other_processes_ = 0;
  uint64_t without_schema_ = 0;
  absl::flat_hash_map<std::string, std::string> schemas_;  // by operator
  std::map<uint32_t, Thread> threads_;
  std::vector<Spelled> spelled_;                      // by ConfigId
  absl::flat_hash_map<std::string, Pieces> results_;  // by their bytes
  NodeMakers<uint64_t> forward_;                      // the makers' nodes
  std::vector<TensorNote> notes_;                     // of the node being written
};

}  // namespace

extern const Exporter kExecutionTraceExporter;
const Exporter kExecutionTraceExporter = {
    .name = "et",
    .help = "execution trace of PyTorch's ExecutionTraceObserver (et_replay, Chakra)",
    .shared_suffix = "json",
    .write = WritesCalls{[](std::ostream* out, const ExportOptions& options) -> std::unique_ptr<CallSink> {
      return std::make_unique<ExecutionTraceSink>(out, options);
    }},
};

}  // namespace torchtrace
