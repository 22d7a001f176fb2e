#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/forms/text_parts.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"

namespace torchtrace {
namespace {

// [2, SymInt]; also list[2, 3], tuple(2, 3) and (2, 3).
absl::Status Dims(TextScanner* scanner, std::vector<Dim>* dims) {
  scanner->SkipSpaces();
  if (!scanner->TakeWord("list")) scanner->TakeWord("tuple");
  char close = ']';
  if (scanner->Take('(')) {
    close = ')';
  } else if (!scanner->Take('[')) {
    return scanner->Expected("sizes in brackets");
  }
  while (!scanner->Take(close)) {
    scanner->SkipSpaces();
    const std::string_view rest = scanner->Rest();
    int64_t size;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error == std::errc()) {
      scanner->Skip(static_cast<size_t>(end - rest.data()));
      dims->emplace_back(size);
    } else if (scanner->Take('*')) {
      dims->emplace_back(kAnySize);
    } else if (TextScanner::IsNameStart(scanner->Peek()) && (scanner->python() || scanner->WordComes("SymInt"))) {
      while (TextScanner::IsNameChar(scanner->Peek())) scanner->Skip(1);
      dims->emplace_back();
    } else {
      return scanner->Expected("a size");
    }
    if (scanner->Take(',')) continue;
    if (scanner->Take(close)) break;
    return scanner->ExpectedCommaOr(close);
  }
  return absl::OkStatus();
}

absl::Status Strides(TextScanner* scanner, Value* value) {
  if ((value->tensor_bits & kTensorShapeUnknown) != 0) return scanner->Expected("no strides of an unknown shape");
  const size_t begin = scanner->at();
  value->tensor_bits |= kTensorHasStride;
  value->strides.clear();
  if (scanner->Take('*')) {
    value->strides.assign(value->shape.size(), Dim(kAnySize));
    return absl::OkStatus();
  }
  if (absl::Status s = Dims(scanner, &value->strides); !s.ok()) return s;
  if (value->strides.size() == value->shape.size()) return absl::OkStatus();
  return scanner->ExpectedAt(begin, absl::StrCat("as many strides as sizes, ", value->shape.size()));
}

absl::Status Option(TextScanner* scanner, Value* value) {
  scanner->SkipSpaces();
  if (scanner->TakeWord("device=")) return ReadTextString(scanner, "a device in quotes", &value->device);
  if (scanner->TakeWord("stride=") || scanner->TakeWord("strides=")) return Strides(scanner, value);
  if (scanner->TakeWord("layout=")) {
    value->tensor_bits |= kTensorHasLayout;
    return ReadTextString(scanner, "a layout in quotes", &value->layout);
  }
  if (scanner->TakeWord("place=Place(")) {
    if (absl::Status s = ReadUnquoted(scanner, &value->device); !s.ok()) return s;
    return scanner->Require(')', "\")\"");
  }
  return scanner->Expected("device=, stride= or layout=");
}

// The name of a value of this kind, such as a dtype.
absl::Status NameOf(TextScanner* scanner, ValueTag tag, const char* what, std::string* name) {
  scanner->SkipSpaces();
  const size_t begin = scanner->at();
  Value value;
  if (!ReadTextLeaf(scanner, &value).ok() || value.tag != tag) {
    return scanner->ExpectedAt(begin, what);
  }
  *name = std::move(value.text);
  return absl::OkStatus();
}

// The beginning that T( and ST( share.
absl::Status ShapeAndDtype(TextScanner* scanner, Value* value) {
  value->tag = ValueTag::kTensor;
  value->device = "cpu";
  if (absl::Status s = Dims(scanner, &value->shape); !s.ok()) return s;
  if (absl::Status s = scanner->Require(',', "\",\" and a dtype"); !s.ok()) return s;
  return NameOf(scanner, ValueTag::kDtype, "a dtype such as f32 or torch.float8_e4m3fn", &value->text);
}

}  // namespace

absl::Status ReadTensorCall(TextScanner* scanner, Value* value) {
  value->tag = ValueTag::kTensor;
  scanner->SkipSpaces();
  if (scanner->TakeWord("undefined)")) {
    value->tag = ValueTag::kUndefined;
    return absl::OkStatus();
  }
  value->device = "cpu";
  if (scanner->TakeWord("None")) {
    value->tensor_bits |= kTensorShapeUnknown;
  } else {
    if (absl::Status s = Dims(scanner, &value->shape); !s.ok()) return s;
  }
  if (absl::Status s = scanner->Require(',', "\",\" and a dtype"); !s.ok()) return s;
  if (absl::Status s = ReadTextString(scanner, "a dtype in quotes", &value->text); !s.ok()) return s;
  while (!scanner->Take(')')) {
    if (absl::Status s = scanner->Require(',', "\",\" or \")\""); !s.ok()) return s;
    if (scanner->Take(')')) break;
    if (absl::Status s = Option(scanner, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ReadShortTensor(TextScanner* scanner, Value* value) {
  if (absl::Status s = ShapeAndDtype(scanner, value); !s.ok()) return s;
  while (!scanner->Take(')')) {
    if (absl::Status s = scanner->Require(',', "\",\" or \")\""); !s.ok()) return s;
    if (scanner->Take(')')) break;
    scanner->SkipSpaces();
    scanner->TakeWord("stride=");
    if (absl::Status s = Strides(scanner, value); !s.ok()) return s;
  }
  // Strides are part of a config only when it is not contiguous.
  if ((value->tensor_bits & kTensorHasStride) != 0 && IsContiguous(value->shape, value->strides)) {
    value->tensor_bits &= ~uint64_t{kTensorHasStride};
    value->strides.clear();
  }
  return absl::OkStatus();
}

absl::Status ReadShortSparseTensor(TextScanner* scanner, Value* value) {
  if (absl::Status s = ShapeAndDtype(scanner, value); !s.ok()) return s;
  for (bool first = true; !scanner->Take(')'); first = false) {
    if (absl::Status s = scanner->Require(',', "\",\" or \")\""); !s.ok()) return s;
    if (scanner->Take(')')) break;
    scanner->SkipSpaces();
    scanner->TakeWord("nnz=");
    if (first) {
      value->tensor_bits |= kTensorHasLayout;
      absl::Status s = NameOf(scanner, ValueTag::kLayout, "a layout such as torch.sparse_coo", &value->layout);
      if (!s.ok()) return s;
    } else {
      Value ignored;  // is_coalesced, nnz: not part of a config
      if (absl::Status s = ReadTextLeaf(scanner, &ignored); !s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

absl::Status ReadNdarrayCall(TextScanner* scanner, Value* value) {
  value->tag = ValueTag::kNdarray;
  if (absl::Status s = Dims(scanner, &value->shape); !s.ok()) return s;
  if (absl::Status s = scanner->Require(',', "\",\" and a dtype"); !s.ok()) return s;
  if (absl::Status s = ReadTextString(scanner, "a dtype in quotes", &value->text); !s.ok()) return s;
  return scanner->Require(')', "\")\"");
}

namespace {

// Each function of a container begins at its opening bracket.
class Reader {
 public:
  explicit Reader(TextScanner* scanner) : scanner_(*scanner) {}

  absl::Status Any(Value* value, int depth) {
    scanner_.SkipSpaces();
    switch (scanner_.Peek()) {
      case '[':
        return Items(ValueTag::kList, ']', value, depth);
      case '(':
        return Parentheses(value, depth);
      case '{':
        return Braces(value, depth);
      default:
        return NameComes(scanner_) ? Named(value, depth) : ReadNamelessLeaf(&scanner_, value);
    }
  }

 private:
  absl::Status Enter(int depth) {
    if (depth >= kMaxValueDepth) {
      return scanner_.Expected(absl::StrCat("at most ", kMaxValueDepth, " levels of nesting"));
    }
    scanner_.Skip(1);
    return absl::OkStatus();
  }

  absl::Status Item(Value* container, int depth) { return Any(&container->items.emplace_back(), depth + 1); }

  // The colon and value after a dict's key.
  absl::Status ItemOfKey(Value* dict, int depth) {
    if (absl::Status s = scanner_.Require(':', "\":\" after a dict's key"); !s.ok()) return s;
    return Item(dict, depth);
  }

  absl::Status Items(ValueTag tag, char close, Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    value->tag = tag;
    const bool dict = tag == ValueTag::kDict;
    uint64_t cut = 0;
    while (!scanner_.Take(close)) {
      scanner_.SkipSpaces();
      if (CutComes(scanner_)) {
        if (absl::Status s = ReadCut(&scanner_, &cut); !s.ok()) return s;
        scanner_.Take(',');
        if (scanner_.Take(close)) break;
        return scanner_.Expected(absl::StrCat("\"", std::string(1, close), "\" after what was left out"));
      }
      if (absl::Status s = Item(value, depth); !s.ok()) return s;
      if (dict) {
        if (absl::Status s = ItemOfKey(value, depth); !s.ok()) return s;
      }
      if (scanner_.Take(',')) continue;
      if (scanner_.Take(close)) break;
      return scanner_.ExpectedCommaOr(close);
    }
    return SetWhole(scanner_, value->items.size() / (dict ? 2 : 1), cut, value);
  }

  // api_tracer's dict(a=1, b=2)
  absl::Status DictCall(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    value->tag = ValueTag::kDict;
    while (!scanner_.Take(')')) {
      scanner_.SkipSpaces();
      const size_t equals = scanner_.Rest().find('=');
      if (equals == std::string_view::npos) return scanner_.Expected("a dict's key and \"=\"");
      std::string_view key = scanner_.Rest().substr(0, equals);
      while (key.ends_with(' ')) key.remove_suffix(1);
      Value& name = value->items.emplace_back();
      name.tag = ValueTag::kString;
      name.text = key;
      name.whole = key.size();
      scanner_.Skip(equals + 1);
      if (absl::Status s = Item(value, depth); !s.ok()) return s;
      if (scanner_.Take(',')) continue;
      if (scanner_.Take(')')) break;
      return scanner_.ExpectedCommaOr(')');
    }
    return SetWhole(scanner_, value->items.size() / 2, 0, value);
  }

  // Python's (1, 2), (1,), () and (1).
  absl::Status Parentheses(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    value->tag = ValueTag::kTuple;
    while (!scanner_.Take(')')) {
      Value item;
      if (absl::Status s = Any(&item, depth + 1); !s.ok()) return s;
      if (value->items.empty() && scanner_.Take(')')) {
        *value = std::move(item);
        return absl::OkStatus();
      }
      value->items.push_back(std::move(item));
      if (scanner_.Take(',')) continue;
      if (scanner_.Take(')')) break;
      return scanner_.ExpectedCommaOr(')');
    }
    return SetWhole(scanner_, value->items.size(), 0, value);
  }

  // Python's {1: 2} and {1, 2}: the character after the first value shows which it is.
  absl::Status Braces(Value* value, int depth) {
    if (absl::Status s = Enter(depth); !s.ok()) return s;
    value->tag = ValueTag::kDict;
    while (!scanner_.Take('}')) {
      const bool first = value->items.empty();
      if (absl::Status s = Item(value, depth); !s.ok()) return s;
      if (first) {
        scanner_.SkipSpaces();
        if (scanner_.Peek() != ':') value->tag = ValueTag::kSet;
      }
      if (value->tag == ValueTag::kDict) {
        if (absl::Status s = ItemOfKey(value, depth); !s.ok()) return s;
      }
      if (scanner_.Take(',')) continue;
      if (scanner_.Take('}')) break;
      return scanner_.ExpectedCommaOr('}');
    }
    return SetWhole(scanner_, value->items.size() / (value->tag == ValueTag::kDict ? 2 : 1), 0, value);
  }

  // slice(1, 2, None), range(0, 10, 1)
  absl::Status Three(ValueTag tag, Value* value, int depth) {
    const size_t begin = scanner_.at();
    if (absl::Status s = Items(ValueTag::kTuple, ')', value, depth); !s.ok()) return s;
    const bool cut = value->whole != value->items.size();
    if (value->items.size() != 3 || cut) {
      return scanner_.ExpectedAt(begin, "start, stop and step");
    }
    value->tag = tag;
    value->whole = 0;
    return absl::OkStatus();
  }

  absl::Status Named(Value* value, int depth) {
    const std::string_view name = TakeDottedName(&scanner_);
    const char bracket = scanner_.Peek();
    if (bracket == '(') return Call(name, value, depth);
    if (bracket == '[' && name == "list") return Items(ValueTag::kList, ']', value, depth);
    if (bracket == '{' && name == "dict") return Items(ValueTag::kDict, '}', value, depth);
    return ReadBareName(&scanner_, name, value);
  }

  absl::Status Call(std::string_view name, Value* value, int depth) {
    if (name == "tuple") return Items(ValueTag::kTuple, ')', value, depth);
    if (name == "set") return Items(ValueTag::kSet, ')', value, depth);
    if (name == "frozenset") return Items(ValueTag::kFrozenSet, ')', value, depth);
    if (name == "slice") return Three(ValueTag::kSlice, value, depth);
    if (name == "range") return Three(ValueTag::kRange, value, depth);
    if (name == "dict") return DictCall(value, depth);
    const std::string_view own_name = scanner_.OwnName(name);
    if (own_name == "Size") scanner_.NoteSize(name);
    if (name == "Size" || own_name == "Size") return Size(value, depth);
    if (own_name == "Tensor") scanner_.NoteFramework(name);
    if (name == "Tensor") scanner_.NoteTensor(scanner_.at());
    using TensorReader = absl::Status (*)(TextScanner*, Value*);
    const TensorReader tensor = name == "Tensor" || own_name == "Tensor" ? ReadTensorCall
                                : name == "ndarray"                      ? ReadNdarrayCall
                                : !scanner_.python()                     ? nullptr
                                : name == "T"                            ? ReadShortTensor
                                : name == "ST"                           ? ReadShortSparseTensor
                                                                         : nullptr;
    if (tensor == nullptr) return ReadLeafCall(&scanner_, name, value);
    scanner_.Skip(1);
    return tensor(&scanner_, value);
  }

  // torch.Size([2, 3])
  absl::Status Size(Value* value, int depth) {
    scanner_.Skip(1);
    scanner_.SkipSpaces();
    if (scanner_.Peek() != '[') return scanner_.Expected("\"[\" and sizes");
    if (absl::Status s = Items(ValueTag::kSize, ']', value, depth); !s.ok()) return s;
    scanner_.Take(',');
    return scanner_.Require(')', "\")\"");
  }

  TextScanner& scanner_;
};

}  // namespace

absl::Status ReadTextValue(TextScanner* scanner, Value* value) { return Reader(scanner).Any(value, 0); }

}  // namespace torchtrace
