#include "serialize/export/python_code.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "serialize/base/text.h"
#include "serialize/export/spellings.h"
#include "serialize/forms/forms.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

constexpr char kPrelude[] =
#include "serialize/export/code_prelude.inc"
    ;

absl::Status Cannot(std::string_view what) {
  return absl::UnimplementedError(absl::string_view(what.data(), what.size()));
}

// Quotes a whole string, with escapes for everything but plain characters. None: not valid UTF-8.
std::optional<std::string> Quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind != Utf8Char::kScalar) return std::nullopt;
    text.remove_prefix(c.bytes);
    if (c.code_point == '"' || c.code_point == '\\') {
      out += '\\';
      out += static_cast<char>(c.code_point);
    } else if (c.code_point >= 0x20 && c.code_point < 0x7f) {
      out += static_cast<char>(c.code_point);
    } else {
      absl::StrAppend(&out, absl::StrFormat("\\U%08x", c.code_point));
    }
  }
  return out + '"';
}

// An undocumented keyword of torch.Tensor.new() and the like: a raw pointer.
constexpr std::string_view kAddress = "cdata";

constexpr std::string_view kTypes[] = {"int", "float", "bool", "complex", "str", "torch.Tensor"};

class PythonValues final : private PythonWriter {
 public:
  using WriteTensor = std::function<absl::StatusOr<std::string>(const Value&, uint64_t)>;
  explicit PythonValues(const WriteTensor& tensor) : tensor_(tensor) {}

  absl::StatusOr<std::string> Write(const Value& value) {
    out_.clear();
    Append(value);
    return Finish();
  }
  // The text in the brackets of a subscript.
  absl::StatusOr<std::string> WriteIndex(const Value& value) {
    out_.clear();
    if (value.tag == ValueTag::kTuple && !value.items.empty() && value.whole <= value.items.size()) {
      const char* separator = "";
      for (const Value& item : value.items) {
        out_ += std::exchange(separator, ", ");
        Index(item);
      }
      if (value.items.size() == 1) out_ += ',';
    } else {
      Index(value);
    }
    return Finish();
  }
  void Rewind(uint64_t position) { position_ = position; }
  uint64_t position() const { return position_; }

 private:
  void Index(const Value& value) {
    if (value.tag == ValueTag::kEllipsis) {
      out_ += "...";
      return;
    }
    if (value.tag != ValueTag::kSlice) return Append(value);
    for (size_t i = 0; i < value.items.size(); ++i) {
      const bool none = value.items[i].tag == ValueTag::kNone;
      if (i == 2 && none) break;
      if (i > 0) out_ += ':';
      if (!none) Append(value.items[i]);
    }
  }

  void Float(double value) override {
    if (std::isfinite(value)) {
      out_ += FormatFloat(value);
    } else {
      absl::StrAppend(&out_, "float(\"", FormatFloat(value), "\")");
    }
  }

  void Text(std::string_view text) override {
    const std::optional<std::string> quoted = Quoted(text);
    if (!quoted.has_value()) SpellingWriter::Cannot("a string that is no UTF-8");
    out_ += quoted.value_or("\"\"");
  }

  void AppendOther(const Value& value) override {
    switch (value.tag) {
      case ValueTag::kTensor: {
        const absl::StatusOr<std::string> tensor = tensor_(value, position_++);
        if (!tensor.ok()) return SpellingWriter::Cannot(std::string(tensor.status().message()));
        out_ += *tensor;
        return;
      }
      case ValueTag::kDtype:
        return TorchName(value.text);
      case ValueTag::kDevice:
        out_ += "torch.device(";
        Text(value.text);
        out_ += ')';
        return;
      case ValueTag::kGenerator:
        out_ += "torch.Generator(";
        Text(value.text);
        out_ += ").manual_seed(0)";
        return;
      case ValueTag::kType:
        if (std::find(std::begin(kTypes), std::end(kTypes), value.text) != std::end(kTypes)) {
          out_ += value.text;
          return;
        }
        return SpellingWriter::Cannot("a type that only the program has");
      case ValueTag::kFunction:
        // An untrusted trace would control its arguments.
        return SpellingWriter::Cannot("a function");
      default:
        return SpellingWriter::Cannot(ValueKind(value));
    }
  }

  const WriteTensor& tensor_;
  uint64_t position_ = 0;
};

// APIs whose integer tensors are indices into their other tensors.
bool TakesIndices(std::string_view api) {
  for (const std::string_view part : {"gather", "scatter", "index", "embedding", "take", "put", "nll_loss",
                                      "cross_entropy", "__getitem__", "__setitem__", "one_hot", "bincount", "unpool"}) {
    if (api.find(part) != std::string_view::npos) return true;
  }
  return false;
}

void LeastSize(const Value& value, const Value& except, std::optional<int64_t>* least) {
  if (value.tag == ValueTag::kTensor && !(value == except)) {
    for (const Dim& dim : value.shape) {
      if (dim.value_or(0) > 0) *least = std::min(least->value_or(*dim), *dim);
    }
  }
  for (const Value& item : value.items) LeastSize(item, except, least);
}

std::string Arguments(const PythonArguments& arguments, size_t from) {
  std::vector<std::string> parts(arguments.args.begin() + static_cast<std::ptrdiff_t>(from), arguments.args.end());
  for (const auto& [name, value] : arguments.kwargs) parts.push_back(absl::StrCat(name, "=", value));
  return absl::StrJoin(parts, ", ");
}

// The expression to call. A Python keyword, as in aten::random_.from, needs getattr.
std::string Callee(const CallTarget& target) {
  const size_t dot = target.name.rfind('.');
  const std::string last = target.name.substr(dot + 1);
  if (IsIdentifier(last)) return target.name;
  return absl::StrCat("getattr(", target.name.substr(0, dot), ", \"", last, "\")");
}

struct Operator {
  std::string_view name;  // without the underscores
  std::string_view sign;
};
constexpr Operator kOperators[] = {{"add", "+"}, {"sub", "-"},  {"mul", "*"},     {"truediv", "/"}, {"floordiv", "//"},
                                   {"mod", "%"}, {"pow", "**"}, {"matmul", "@"},  {"and", "&"},     {"or", "|"},
                                   {"xor", "^"}, {"eq", "=="},  {"ne", "!="},     {"lt", "<"},      {"le", "<="},
                                   {"gt", ">"},  {"ge", ">="},  {"lshift", "<<"}, {"rshift", ">>"}};

const Operator* FindOperator(std::string_view method, bool* reflected) {
  if (!method.starts_with("__") || !method.ends_with("__") || method.size() < 5) return nullptr;
  const std::string_view name = method.substr(2, method.size() - 4);
  for (const Operator& one : kOperators) {
    *reflected = name != one.name;
    if (name == one.name || (name[0] == 'r' && name.substr(1) == one.name)) return &one;
  }
  return nullptr;
}

std::string Operand(const std::string& text) { return text.starts_with('-') ? absl::StrCat("(", text, ")") : text; }

}  // namespace

std::string_view CodePrelude() { return kPrelude; }

absl::StatusOr<std::string> PythonString(std::string_view text) {
  std::optional<std::string> quoted = Quoted(text);
  if (!quoted.has_value()) return Cannot("a string that is no UTF-8");
  return *std::move(quoted);
}

std::string PythonTuple(const std::vector<std::string>& items) {
  return absl::StrCat("(", absl::StrJoin(items, ", "), items.size() == 1 ? ",)" : ")");
}

absl::StatusOr<std::string> PythonTensor(const Value& tensor, const TensorNote* note, bool contents,
                                         const Config& config, bool memory) {
  if ((tensor.tensor_bits & kTensorShapeUnknown) != 0) return Cannot("a tensor of unknown shape");
  if ((tensor.tensor_bits & kTensorHasLayout) != 0) return Cannot("a tensor that isn't strided");
  if (!IsDtypeName(tensor.text)) return Cannot("a dtype that isn't known");
  if (tensor.text.starts_with('q') || tensor.text.starts_with("bits")) return Cannot("a quantised tensor");
  const absl::StatusOr<std::string> device = PythonString(tensor.device);
  if (!device.ok()) return device.status();
  const auto tuple = [](const std::vector<Dim>& dims) -> absl::StatusOr<std::string> {
    std::vector<std::string> items;
    for (const Dim& dim : dims) {
      if (dim.value_or(-1) < 0) return Cannot("a size that isn't known");
      items.push_back(absl::StrCat(*dim));
    }
    return PythonTuple(items);
  };
  const absl::StatusOr<std::string> shape = tuple(tensor.shape);
  if (!shape.ok()) return shape.status();
  std::string text = absl::StrCat("tensor(", *shape, ", torch.", tensor.text);
  if ((tensor.tensor_bits & kTensorHasStride) != 0) {
    const absl::StatusOr<std::string> stride = tuple(tensor.strides);
    if (!stride.ok()) return stride.status();
    absl::StrAppend(&text, ", stride=", *stride);
  }
  if (tensor.device != "cpu") absl::StrAppend(&text, ", device=", *device);
  const bool integers = tensor.text.find("int") != std::string::npos;
  if (contents && note != nullptr && note->contents && !note->contents->empty()) {
    absl::StrAppend(&text, memory ? ", memory=\"" : ", contents=\"",
                    absl::Base64Escape(absl::string_view(note->contents->data(), note->contents->size())), "\"");
  } else if (note != nullptr && note->range && (integers || tensor.text == "bool")) {
    absl::StrAppend(&text, ", low=", note->range->least, ", high=", note->range->most);
  } else if (integers && TakesIndices(config.api)) {
    std::optional<int64_t> least;
    for (const Value& value : config.args) LeastSize(value, tensor, &least);
    for (const auto& [name, value] : config.kwargs) LeastSize(value, tensor, &least);
    absl::StrAppend(&text, ", low=0, high=", least.value_or(1) - (least.has_value() ? 1 : 0));
  }
  return text + ")";
}

absl::StatusOr<PythonArguments> WriteArguments(
    const Config& config, const std::function<absl::StatusOr<std::string>(const Value&, uint64_t)>& tensor) {
  PythonArguments arguments;
  arguments.of_tensor = !config.args.empty() && config.args[0].tag == ValueTag::kTensor;
  PythonValues writer(tensor);
  for (size_t i = 0; i < config.args.size(); ++i) {
    const uint64_t position = writer.position();
    if (i == 1 && (config.api.ends_with(".__getitem__") || config.api.ends_with(".__setitem__"))) {
      absl::StatusOr<std::string> index = writer.WriteIndex(config.args[i]);
      if (!index.ok()) return index.status();
      arguments.index = *std::move(index);
      writer.Rewind(position);
    }
    absl::StatusOr<std::string> text = writer.Write(config.args[i]);
    if (!text.ok()) return text.status();
    arguments.args.push_back(*std::move(text));
  }
  absl::flat_hash_set<std::string_view> names;
  for (const auto& [name, value] : config.kwargs) {
    if (!IsIdentifier(name)) return Cannot("an argument's name that Python doesn't take");
    if (!names.insert(name).second) return Cannot("an argument that is given twice");
    if (name == kAddress) return Cannot("memory by its address");
    absl::StatusOr<std::string> text = writer.Write(value);
    if (!text.ok()) return text.status();
    arguments.kwargs.emplace_back(name, *std::move(text));
  }
  return arguments;
}

std::string PythonAutocast(const CallAutocast& autocast) {
  return absl::StrCat("torch.autocast(", PythonString(autocast.device).value_or("\"cpu\""), ", dtype=torch.",
                      autocast.dtype, ")");
}

absl::StatusOr<PythonCall> WriteCall(const CallTarget& target, const PythonArguments& arguments) {
  const std::vector<std::string>& args = arguments.args;
  switch (target.kind) {
    case CallTarget::kRefused:
      return Cannot(target.name);
    case CallTarget::kFunction:
    case CallTarget::kOverload:
      return PythonCall{absl::StrCat(Callee(target), "(", Arguments(arguments, 0), ")"), false};
    case CallTarget::kGetter:
      if (!arguments.of_tensor) break;
      return PythonCall{absl::StrCat(args[0], ".", target.name), false};
    case CallTarget::kSetter:
      if (!arguments.of_tensor || args.size() != 2) break;
      return PythonCall{absl::StrCat(args[0], ".", target.name, " = ", args[1]), true};
    case CallTarget::kMethod: {
      if (!arguments.of_tensor) break;
      const bool plain = arguments.kwargs.empty();
      if (plain && target.name == "__getitem__" && args.size() == 2) {
        return PythonCall{absl::StrCat(args[0], "[", arguments.index, "]"), false};
      }
      if (plain && target.name == "__setitem__" && args.size() == 3) {
        return PythonCall{absl::StrCat(args[0], "[", arguments.index, "] = ", args[2]), true};
      }
      bool reflected = false;
      const Operator* const sign = FindOperator(target.name, &reflected);
      if (plain && sign != nullptr && args.size() == 2) {
        return PythonCall{
            absl::StrCat(Operand(args[reflected]), " ", std::string(sign->sign), " ", Operand(args[!reflected])),
            false};
      }
      return PythonCall{absl::StrCat(args[0], ".", target.name, "(", Arguments(arguments, 1), ")"), false};
    }
  }
  return Cannot("a method without its tensor");
}

absl::StatusOr<std::string> WriteNode(const CallTarget& target, const PythonArguments& arguments) {
  std::vector<std::string> kwargs;
  for (const auto& [name, value] : arguments.kwargs) kwargs.push_back(absl::StrCat("\"", name, "\": ", value));
  const std::string rest = absl::StrCat(PythonTuple(arguments.args), ", {", absl::StrJoin(kwargs, ", "), "})");
  const std::vector<std::string>& args = arguments.args;
  switch (target.kind) {
    case CallTarget::kRefused:
      return Cannot(target.name);
    case CallTarget::kFunction:
    case CallTarget::kOverload:
      return absl::StrCat("graph.call_function(", Callee(target), ", ", rest);
    case CallTarget::kGetter:
      if (!arguments.of_tensor) break;
      return absl::StrCat("graph.call_function(getattr, (", args[0], ", \"", target.name, "\"))");
    case CallTarget::kSetter:
      if (!arguments.of_tensor || args.size() != 2) break;
      return absl::StrCat("graph.call_function(setattr, (", args[0], ", \"", target.name, "\", ", args[1], "))");
    case CallTarget::kMethod: {
      if (!arguments.of_tensor) break;
      if (target.name == "__getitem__" || target.name == "__setitem__") {
        return absl::StrCat("graph.call_function(operator.", target.name == "__getitem__" ? "getitem" : "setitem", ", ",
                            rest);
      }
      return absl::StrCat("graph.call_method(\"", target.name, "\", ", rest);
    }
  }
  return Cannot("a method without its tensor");
}

}  // namespace torchtrace
