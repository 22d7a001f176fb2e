#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/json_member.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/op_schema.h"
#include "serialize/import/importer.h"
#include "serialize/import/json_stream.h"
#include "serialize/model/config.h"
#include "serialize/model/record_facts.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/unknown_arguments.h"
#include "serialize/model/value.h"
#include "serialize/trace/tables.h"

namespace torchtrace {
namespace {

using nlohmann::json;

constexpr uint32_t kNoConfig = UINT32_MAX;
// CRITICAL: each list or tuple in the file becomes one in the identity.
static_assert(kMaxJsonDepth < kMaxValueDepth);

bool GetUint(const json* value, uint64_t* out) {
  if (value == nullptr || !value->is_number_integer() || (!value->is_number_unsigned() && value->get<int64_t>() < 0)) {
    return false;
  }
  *out = value->get<uint64_t>();
  return true;
}

// A piece of the file for an error: quoted, and not too long.
std::string Shown(std::string_view text) {
  constexpr size_t kMaxBytes = 60;
  return QuoteText(text.substr(0, kMaxBytes)) + (text.size() > kMaxBytes ? "..." : "");
}

// A node's inputs or outputs, independent of the schema version.
struct Inputs {
  const json* values = nullptr;
  const json* shapes = nullptr;
  const json* types = nullptr;
  const json* strides = nullptr;  // null before 1.1.1
};

// Makes Values from a node's inputs, and notes from their tensors' identities. Errors name what was expected.
class InputReader {
 public:
  std::string TakeNotes() { return std::move(notes_); }

  absl::Status Read(const Inputs& inputs, std::vector<Value>* out) {
    for (const auto& [name, list] :
         {std::pair("values", inputs.values), std::pair("shapes", inputs.shapes), std::pair("types", inputs.types)}) {
      if (list == nullptr || !list->is_array()) return Expected(absl::StrCat("a list of input ", name));
    }
    const size_t count = inputs.values->size();
    if (inputs.types->size() != count || inputs.shapes->size() != count) {
      return Expected(absl::StrCat("as many shapes and types of inputs as values (", count, "), found ",
                                   inputs.shapes->size(), " and ", inputs.types->size()));
    }
    const bool strides = inputs.strides != nullptr && inputs.strides->is_array() && inputs.strides->size() == count;
    out->resize(count);
    for (size_t i = 0; i < count; ++i) {
      const json& type = (*inputs.types)[i];
      if (!type.is_string()) return Expected(absl::StrCat("a name as the type of input ", i));
      const absl::Status status =
          ReadValue((*inputs.values)[i], (*inputs.shapes)[i], strides ? &(*inputs.strides)[i] : nullptr,
                    type.get_ref<const std::string&>(), &(*out)[i]);
      if (!status.ok())
        return absl::InvalidArgumentError(absl::StrCat("input ", i, ": ", std::string(status.message())));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Expected(const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", what));
  }

  // Recurses at most as deep as the JSON is nested.
  absl::Status ReadValue(const json& value, const json& shape, const json* strides, std::string_view type, Value* out) {
    const size_t open = type.find_first_of("([");
    const std::string_view kind = type.substr(0, open);
    if (kind == "Tensor") {
      std::string_view dtype = open == type.npos ? std::string_view() : type.substr(open + 1);
      if (dtype.ends_with(')')) dtype.remove_suffix(1);
      return ReadTensor(value, shape, strides, dtype, out);
    }
    if (kind == "GenericList" || kind == "Tuple") {
      std::string_view types = open == type.npos ? std::string_view() : type.substr(open + 1);
      if (types.ends_with(']')) types.remove_suffix(1);
      out->tag = kind == "Tuple" ? ValueTag::kTuple : ValueTag::kList;
      return ReadItems(value, shape, strides, types, out);
    }
    return ReadScalar(value, kind, out);
  }

  absl::Status ReadItems(const json& values, const json& shapes, const json* strides, std::string_view types,
                         Value* out) {
    if (!values.is_array()) return Expected("a list of values");
    const size_t count = values.size();
    const bool has_shapes = shapes.is_array() && shapes.size() == count;
    const bool has_strides = strides != nullptr && strides->is_array() && strides->size() == count;
    static const json* const kNoShape = new json(json::array());
    out->items.resize(count);
    out->whole = count;
    for (size_t i = 0; i < count; ++i) {
      if (types.empty()) return Expected(absl::StrCat("as many types as list items (", count, ")"));
      const std::string_view type = TakeType(&types);
      const absl::Status status = ReadValue(values[i], has_shapes ? shapes[i] : *kNoShape,
                                            has_strides ? &(*strides)[i] : nullptr, type, &out->items[i]);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Up to the next comma outside brackets.
  static std::string_view TakeType(std::string_view* types) {
    int depth = 0;
    size_t i = 0;
    for (; i < types->size(); ++i) {
      const char c = (*types)[i];
      if (c == '[' || c == '(' || c == '<') ++depth;
      if (c == ']' || c == ')' || c == '>') --depth;
      if (c == ',' && depth == 0) break;
    }
    const std::string_view type = types->substr(0, i);
    types->remove_prefix(std::min(i + 1, types->size()));
    return type;
  }

  // value: [tensor id, storage id, offset, elements, bytes per element, device]
  absl::Status ReadTensor(const json& value, const json& shape, const json* strides, std::string_view dtype,
                          Value* out) {
    uint64_t storage = 0;
    if (!value.is_array() || value.size() < 5 || !GetUint(&value[1], &storage)) {
      return Expected("a tensor as [id, storage id, offset, elements, bytes of one, device]");
    }
    const std::string name = DtypeOfCppName(dtype);
    if (name.empty()) {
      out->tag = ValueTag::kUndefined;
      return absl::OkStatus();
    }
    out->tag = ValueTag::kTensor;
    TensorNote note = {.position = tensors_++};
    TensorNote::Identity identity = {.storage = storage};
    if (GetUint(&value[0], &identity.tensor) && identity.tensor != 0 && GetUint(&value[2], &identity.offset)) {
      note.identity = identity;
      AppendTensorNote(note, &notes_);
    }
    out->text = name;
    out->device = "unknown";
    if (value.size() > 5 && value[5].is_string() && !value[5].get_ref<const std::string&>().empty()) {
      out->device = value[5].get_ref<const std::string&>();
    }
    if (!ReadJsonDims(shape, &out->shape)) return Expected("a tensor's shape as a list of integers");
    if (storage == 0 && out->device == "unknown") {
      // No storage: either the sizes are symbolic, which are written as [], or the layout is sparse.
      if (out->shape.empty()) {
        out->tensor_bits = kTensorShapeUnknown;
      } else {
        out->tensor_bits = kTensorHasLayout;
        out->layout = "unknown";
      }
      return absl::OkStatus();
    }
    if (strides == nullptr) return absl::OkStatus();
    if (!ReadJsonDims(*strides, &out->strides)) return Expected("a tensor's strides as a list of integers");
    if (out->strides.size() != out->shape.size() || IsContiguous(out->shape, out->strides)) {
      out->strides.clear();
    } else {
      out->tensor_bits = kTensorHasStride;
    }
    return absl::OkStatus();
  }

  static absl::Status ReadScalar(const json& value, std::string_view kind, Value* out) {
    if (kind == "None") {
      out->tag = ValueTag::kNone;
    } else if (kind == "Int" && value.is_number_integer()) {
      SetInt(value, out);
    } else if (kind == "Double" && value.is_number()) {
      out->tag = ValueTag::kFloat;
      out->real = value.get<double>();
    } else if (kind == "Double" && value.is_string()) {
      // inf and nan
      const std::string& text = value.get_ref<const std::string&>();
      char* end = nullptr;
      out->tag = ValueTag::kFloat;
      out->real = std::strtod(text.c_str(), &end);
      if (text.empty() || end != text.c_str() + text.size())
        return Expected(absl::StrCat("a number, found ", Shown(text)));
    } else if (kind == "Bool" && value.is_boolean()) {
      out->tag = value.get<bool>() ? ValueTag::kTrue : ValueTag::kFalse;
    } else if (kind == "String" && value.is_string()) {
      out->tag = ValueTag::kString;
      out->text = value.get_ref<const std::string&>();
      out->whole = out->text.size();
    } else if (kind == "Device" && value.is_string()) {
      out->tag = ValueTag::kDevice;
      out->text = value.get_ref<const std::string&>();
    } else if (kind == "Int" || kind == "Double" || kind == "Bool" || kind == "String" || kind == "Device") {
      return Expected(absl::StrCat("a value of type ", std::string(kind)));
    } else if (kind == "SymInt" || kind == "SymFloat" || kind == "SymBool") {
      out->tag = ValueTag::kSymbol;
      out->text = kind;
    } else if (kind == "Generator") {
      out->tag = ValueTag::kGenerator;
      out->text = "unknown";
    } else {
      // "<Object>": the file contains only its kind.
      out->tag = ValueTag::kObject;
      out->text = kind == "Object" ? "torch.ScriptObject" : kind;
    }
    return absl::OkStatus();
  }

  static void SetInt(const json& value, Value* out) {
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      out->tag = ValueTag::kBigInt;
      out->text = absl::StrCat(value.get<uint64_t>());
    } else {
      out->tag = ValueTag::kInt;
      out->integer = value.get<int64_t>();
    }
  }

  uint64_t tensors_ = 0;
  std::string notes_;
};

class ExecutionTraceSource final : public CallSource, private JsonStreamVisitor {
 public:
  explicit ExecutionTraceSource(JsonFile file) : file_(std::move(file)), path_(file_.name) {
    processes_.resize(1);
    processes_[0].metadata = {{"dialect", "torch"}, {"levels", {2}}};
  }

  std::string format() const override { return "PyTorch execution trace"; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  std::vector<std::string> notes() const override { return notes_; }

  absl::Status Scan(const Visitor& visit) override {
    if (!loaded_.has_value()) loaded_ = Load();
    if (!loaded_->ok()) return *loaded_;

    // The open calls of each thread, as indices of nodes.
    std::vector<std::vector<uint32_t>> open(threads_);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.config == kNoConfig) continue;
      std::vector<uint32_t>& stack = open[node.thread];
      const uint32_t caller = CallerOf(i);
      while (!stack.empty() && stack.back() != caller) stack.pop_back();
      ImportedCall call;
      call.identity = configs_.identity(node.config);
      call.thread = node.thread;
      call.depth = static_cast<uint32_t>(stack.size());
      const std::string_view extras = std::string_view(extras_).substr(node.extras);
      call.notes = extras.substr(0, node.notes_bytes);
      if (node.result != kNoResult) {
        call.result = {results_[node.result], extras.substr(node.notes_bytes, node.result_notes_bytes)};
      }
      if (absl::Status status = visit(call); !status.ok()) return status;
      stack.push_back(static_cast<uint32_t>(i));
    }
    return absl::OkStatus();
  }

 private:
  struct Node {
    uint64_t id;      // in order of entry
    uint64_t parent;  // its id; once sorted, its index, or kNoParent
    uint32_t config;  // kNoConfig: not an operator
    uint32_t thread;
    uint64_t extras = 0;  // where extras_ has the notes on its tensors, followed by those on its result
    uint32_t notes_bytes = 0;
    uint32_t result_notes_bytes = 0;
    uint32_t result = kNoResult;  // index into results_
  };
  static constexpr uint64_t kNoParent = UINT64_MAX;
  static constexpr uint32_t kNoResult = UINT32_MAX;

  // The nearest enclosing operator, or UINT32_MAX. Nodes that are not operators already
  // point at theirs, so this takes at most two steps.
  uint32_t CallerOf(size_t i) const {
    const uint64_t parent = nodes_[i].parent;
    if (parent == kNoParent) return UINT32_MAX;
    if (nodes_[parent].config != kNoConfig) return static_cast<uint32_t>(parent);
    const uint64_t outer = nodes_[parent].parent;
    return outer == kNoParent ? UINT32_MAX : static_cast<uint32_t>(outer);
  }

  absl::Status Load() {
    const absl::StatusOr<JsonStreamEnd> end =
        ReadJsonStream(file_, {.array = "nodes", .members = {"schema", "pid", "time", "start_ts", "finish_ts"}}, this);
    if (!end.ok()) return end.status();
    if (!end->found_array) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": ", end->cut ? "the file ends" : "the object ends",
                                                     " at offset ", end->bytes,
                                                     " without \"nodes\", which an execution trace has"));
    }
    if (nodes_.size() >= UINT32_MAX) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": more than 4 billion nodes"));
    }
    std::stable_sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.id < b.id; });
    for (size_t i = 0; i < nodes_.size(); ++i) LinkToParent(i);
    NumberThreads();
    for (const auto& [text, schema] : schemas_) {
      if (!schema.name.empty()) processes_[0].metadata["schemas"][schema.name] = text;
    }
    schemas_.clear();
    result_numbers_.clear();
    TakeNotes(*end);
    return absl::OkStatus();
  }

  // A parent was entered before its child, so its id is smaller. Any other parent in the file is ignored.
  void LinkToParent(size_t i) {
    Node& node = nodes_[i];
    const auto found = std::lower_bound(nodes_.begin(), nodes_.begin() + static_cast<ptrdiff_t>(i), node.parent,
                                        [](const Node& other, uint64_t id) { return other.id < id; });
    const size_t at = static_cast<size_t>(found - nodes_.begin());
    if (at >= i || found->id != node.parent) {
      node.parent = kNoParent;
      return;
    }
    node.parent = at;
    // A node that is not an operator points at the enclosing operator.
    if (node.config == kNoConfig && nodes_[at].config == kNoConfig) node.parent = nodes_[at].parent;
  }

  // Numbers threads by first call, which is not the file's order.
  void NumberThreads() {
    std::vector<uint32_t> number(thread_numbers_.size(), UINT32_MAX);
    for (Node& node : nodes_) {
      if (node.config == kNoConfig) continue;
      if (number[node.thread] == UINT32_MAX) number[node.thread] = threads_++;
      node.thread = number[node.thread];
    }
  }

  void TakeNotes(const JsonStreamEnd& end) {
    processes_[0].metadata["file_end"] = end.cut ? "cut" : "whole";
    if (end.cut) {
      notes_.push_back(absl::StrCat(path_, " ends at offset ", end.bytes, " in the middle; ", end.elements,
                                    " whole nodes were read"));
    }
    notes_.push_back(absl::StrCat(path_, " lacks times, calls that raised",
                                  saw_strides_ || calls_ == 0 ? "" : ", strides of tensors",
                                  " and digits of floats after the sixth decimal; it has composite operators and what "
                                  "they call, which torchtrace's level 2 doesn't have"));
    if (bad_schemas_ > 0) {
      notes_.push_back(absl::StrCat(path_, " has ", bad_schemas_,
                                    " calls with a schema that can't be read: their arguments are all positional"));
    }
    if (without_inputs_ > 0) {
      notes_.push_back(absl::StrCat(path_, " has ", without_inputs_, " calls whose arguments it doesn't have"));
    }
    if (without_schema_ > 0) {
      notes_.push_back(absl::StrCat(path_, " has ", without_schema_,
                                    " calls of operators without a schema: their overloads aren't known, their "
                                    "arguments are all positional, and enums are numbers"));
    }
  }

  absl::Status Member(const std::string& key, const json& value) override {
    if (key == "schema") {
      if (!value.is_string()) return absl::InvalidArgumentError(absl::StrCat(path_, ": \"schema\" must be a string"));
      const std::string& schema = value.get_ref<const std::string&>();
      // Accept later 1.x versions: all so far only added attributes.
      if (!schema.starts_with("1.")) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": execution trace of schema ", Shown(schema), "; known are 1.0.1 to 1.1.1"));
      }
      processes_[0].metadata["execution_trace"]["schema"] = schema;
    } else if (key == "pid") {
      if (value.is_number_integer()) processes_[0].metadata["pid"] = value;
    } else if (value.is_string() || value.is_number()) {
      processes_[0].metadata["execution_trace"][key] = value;
    }
    return absl::OkStatus();
  }

  absl::Status Element(const json& node, uint64_t offset) override {
    const absl::Status status = AddNode(node);
    if (status.ok()) return status;
    uint64_t id = 0;
    const std::string which = GetUint(FindMember(node, "id"), &id) ? absl::StrCat("node ", id, " (offset ", offset, ")")
                                                                   : absl::StrCat("the node at offset ", offset);
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", which, ": ", std::string(status.message())));
  }

  absl::Status AddNode(const json& node) {
    if (!node.is_object()) return absl::InvalidArgumentError("expected an object");
    const json* const name = FindMember(node, "name");
    Node added = {.id = 0, .parent = 0, .config = kNoConfig, .thread = 0};
    if (name == nullptr || !name->is_string()) return absl::InvalidArgumentError("expected a \"name\"");
    if (!GetUint(FindMember(node, "id"), &added.id)) return absl::InvalidArgumentError("expected an integer \"id\"");
    // Up to 1.0.1 all members are in the node itself; later, everything except the graph is a list of attributes.
    const json* const attributes = FindMember(node, "attrs");
    const json* const parent = FindMember(node, attributes != nullptr ? "ctrl_deps" : "parent");
    if (!GetUint(parent != nullptr && parent->is_array() && parent->size() == 1 ? &(*parent)[0] : parent,
                 &added.parent)) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected its parent's id as \"", attributes != nullptr ? "ctrl_deps" : "parent", "\""));
    }
    const json* tid = FindMember(node, "tid");
    const json* schema = FindMember(node, "op_schema");
    const json* scope = FindMember(node, "scope");
    Inputs inputs, outputs;
    if (attributes != nullptr) {
      if (!attributes->is_array()) return absl::InvalidArgumentError("expected a list of \"attrs\"");
      for (const json& attribute : *attributes) {
        const json* const key = FindMember(attribute, "name");
        if (key == nullptr || !key->is_string())
          return absl::InvalidArgumentError("expected a \"name\" in each of \"attrs\"");
        if (*key == "tid") tid = FindMember(attribute, "value");
        if (*key == "op_schema") schema = FindMember(attribute, "value");
        if (*key == "scope") scope = FindMember(attribute, "value");
      }
      const auto members = [&node](const char* name) {
        const json* const all = FindMember(node, name);
        return all == nullptr ? Inputs()
                              : Inputs{FindMember(*all, "values"), FindMember(*all, "shapes"),
                                       FindMember(*all, "types"), FindMember(*all, "strides")};
      };
      inputs = members("inputs");
      outputs = members("outputs");
    } else {
      inputs = {FindMember(node, "inputs"), FindMember(node, "input_shapes"), FindMember(node, "input_types"), nullptr};
      outputs = {FindMember(node, "outputs"), FindMember(node, "output_shapes"), FindMember(node, "output_types"),
                 nullptr};
    }
    const std::string& api = name->get_ref<const std::string&>();
    const bool has_schema = schema != nullptr && schema->is_string() && !schema->get_ref<const std::string&>().empty();
    uint64_t scope_number = kFunctionScope;
    GetUint(scope, &scope_number);
    if (has_schema || (scope_number == kFunctionScope && !OperatorPacket(api).empty())) {
      if (!has_schema) {
        AddCallWithoutSchema(api, inputs, &added);
      } else if (absl::Status status = AddCall(schema->get_ref<const std::string&>(), api, inputs, &added);
                 !status.ok()) {
        return status;
      }
      AddResult(outputs, &added);
      added.thread = ThreadOf(tid);
    }
    nodes_.push_back(added);
    return absl::OkStatus();
  }

  absl::Status AddCall(const std::string& schema_text, const std::string& name, const Inputs& inputs, Node* node) {
    std::vector<Value> values;
    if (absl::Status status = ReadInputs(inputs, &values, node); !status.ok()) return status;
    const auto [cached, is_new] = schemas_.try_emplace(schema_text);
    if (is_new) {
      if (std::optional<OpSchema> parsed = ParseOpSchema(schema_text)) cached->second = std::move(*parsed);
    }
    const bool is_schema = !cached->second.name.empty();
    const OpSchema unknown = {name, {}};
    const OpSchema& schema = is_schema ? cached->second : unknown;
    bad_schemas_ += !is_schema;
    Config config = CallOfSchema(schema, std::move(values), /*six_decimals=*/true);
    // The observer writes all arguments, including defaults, so none means unknown.
    if (inputs.values->empty() && !schema.arguments.empty()) ForgetArguments(&config);
    AddConfig(config, node);
    return absl::OkStatus();
  }

  // An operator for which the file has only the name and the boxed arguments.
  void AddCallWithoutSchema(const std::string& name, const Inputs& inputs, Node* node) {
    std::vector<Value> values;
    const bool read = ReadInputs(inputs, &values, node).ok();
    Config config = CallOfSchema(OpSchema{name, {}}, std::move(values), /*six_decimals=*/true);
    if (!read) ForgetArguments(&config);
    ++without_schema_;
    AddConfig(config, node);
  }

  absl::Status ReadInputs(const Inputs& inputs, std::vector<Value>* values, Node* node) {
    InputReader reader;
    node->extras = extras_.size();
    if (absl::Status status = reader.Read(inputs, values); !status.ok()) return status;
    node->notes_bytes = AddExtra(reader.TakeNotes());
    if (inputs.strides != nullptr) saw_strides_ = true;
    return absl::OkStatus();
  }

  void ForgetArguments(Config* config) {
    ++without_inputs_;
    config->args = {UnknownArguments()};
    config->kwargs.clear();
  }

  void AddConfig(const Config& config, Node* node) {
    ++calls_;
    node->config = configs_.config_of(configs_.Intern(EncodeConfig(config), ""));
  }

  // An unreadable result is unknown: other writers leave it out.
  void AddResult(const Inputs& outputs, Node* node) {
    std::vector<Value> values;
    InputReader reader;
    if (!reader.Read(outputs, &values).ok()) return;
    std::string bytes;
    AppendVarint(values.size(), &bytes);
    for (const Value& value : values) EncodeValue(value, &bytes);
    const auto [number, is_new] = result_numbers_.try_emplace(std::move(bytes), static_cast<uint32_t>(results_.size()));
    if (is_new) results_.push_back(number->first);
    node->result = number->second;
    node->result_notes_bytes = AddExtra(reader.TakeNotes());
  }

  uint32_t AddExtra(const std::string& notes) {
    extras_.append(notes);
    return static_cast<uint32_t>(notes.size());
  }

  uint32_t ThreadOf(const json* tid) {
    uint64_t number = 0;
    GetUint(tid, &number);
    return thread_numbers_.try_emplace(number, static_cast<uint32_t>(thread_numbers_.size())).first->second;
  }

  const JsonFile file_;
  const std::string& path_;  // the file's name
  std::optional<absl::Status> loaded_;
  std::vector<Node> nodes_;
  ConfigTable configs_;
  std::string extras_;
  std::vector<std::string> results_;  // CallResult::values
  absl::flat_hash_map<std::string, uint32_t> result_numbers_;
  absl::flat_hash_map<std::string, OpSchema> schemas_;  // by text; an empty name: not a schema
  std::map<uint64_t, uint32_t> thread_numbers_;         // by tid
  uint32_t threads_ = 0;
  std::vector<ImportedProcess> processes_;
  std::vector<std::string> notes_;
  bool saw_strides_ = false;
  uint64_t calls_ = 0;
  uint64_t bad_schemas_ = 0;
  uint64_t without_inputs_ = 0;
  uint64_t without_schema_ = 0;
};

}  // namespace

bool LooksLikeExecutionTrace(std::string_view head) {
  const size_t start = head.find_first_not_of(" \t\r\n");
  if (start == head.npos || head[start] != '{' || head.find("\"traceEvents\"") != head.npos) return false;
  return head.find("\"nodes\"") != head.npos &&
         (head.find("\"schema\"") != head.npos || head.find("\"ctrl_deps\"") != head.npos);
}

std::unique_ptr<CallSource> MakeExecutionTraceSource(JsonFile file) {
  return std::make_unique<ExecutionTraceSource>(std::move(file));
}

}  // namespace torchtrace
