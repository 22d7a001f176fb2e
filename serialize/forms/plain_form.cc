#include "serialize/forms/plain_form.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

Plain MakeInt(int64_t value) {
  Plain plain;
  plain.kind = Plain::kInt;
  plain.integer = value;
  return plain;
}

Plain MakeBool(bool value) {
  Plain plain;
  plain.kind = Plain::kBool;
  plain.boolean = value;
  return plain;
}

Plain MakeFloat(double value) {
  Plain plain;
  plain.kind = Plain::kFloat;
  plain.real = value;
  return plain;
}

Plain MakeText(std::string_view text) {
  Plain plain;
  plain.kind = Plain::kString;
  plain.text = text;
  return plain;
}

Plain MakeList(std::vector<Plain> items) {
  Plain plain;
  plain.kind = Plain::kList;
  plain.items = std::move(items);
  return plain;
}

// Sizes and byte counts, which fit 63 bits unless they are damaged; those stay exact.
Plain MakeUint(uint64_t value) {
  if (value <= INT64_MAX) return MakeInt(static_cast<int64_t>(value));
  Plain plain;
  plain.kind = Plain::kBigInt;
  plain.text = std::to_string(value);
  return plain;
}

// `text` as it is, or with escapes if it isn't UTF-8, which names of types and APIs always are.
std::string ReadableText(std::string_view text) {
  if (IsValidUtf8(text)) return std::string(text);
  const std::string quoted = QuoteText(text);
  return quoted.substr(1, quoted.size() - 2);
}

Plain Tagged(std::string_view type) {
  Plain plain;
  plain.kind = Plain::kMap;
  plain.fields.push_back({"type", MakeText(type)});
  return plain;
}

Plain Tagged(std::string_view type, Plain value) {
  Plain plain = Tagged(type);
  plain.fields.push_back({"value", std::move(value)});
  return plain;
}

Plain Tagged(std::string_view type, std::string_view name) { return Tagged(type, MakeText(ReadableText(name))); }

void AddCut(uint64_t whole, uint64_t shown, Plain* tagged) {
  if (whole > shown) tagged->fields.push_back({"cut", MakeUint(whole - shown)});
}

Plain DimsToPlain(const std::vector<Dim>& dims) {
  std::vector<Plain> items;
  items.reserve(dims.size());
  for (const Dim& dim : dims) {
    if (!dim.has_value()) {
      items.push_back(MakeText("SymInt"));
    } else {
      items.push_back(*dim == kAnySize ? MakeText(kAnyName) : MakeInt(*dim));
    }
  }
  return MakeList(std::move(items));
}

Plain StringToPlain(const Value& value) {
  const bool valid = IsValidUtf8(value.text);
  if (valid && value.whole <= value.text.size()) return MakeText(value.text);
  Plain tagged = Tagged("str");
  tagged.fields.push_back({valid ? "value" : "escaped", MakeText(ReadableText(value.text))});
  AddCut(value.whole, value.text.size(), &tagged);
  return tagged;
}

// Each byte becomes the character with its code, as in Python's latin-1.
Plain BytesToPlain(const Value& value) {
  std::string text;
  for (const char byte : value.text) AppendUtf8(static_cast<uint8_t>(byte), &text);
  Plain tagged = Tagged("bytes", MakeText(text));
  AddCut(value.whole, value.text.size(), &tagged);
  return tagged;
}

// Walks a config's values and gives each tensor its facet.
class Converter {
 public:
  Converter(std::string_view framework, const std::vector<TensorFacet>* facets)
      : framework_(framework), facets_(facets) {}

  Plain Convert(const Value& value) {
    switch (value.tag) {
      case ValueTag::kNone:
        return Plain();
      case ValueTag::kFalse:
        return MakeBool(false);
      case ValueTag::kTrue:
        return MakeBool(true);
      case ValueTag::kInt:
        return MakeInt(value.integer);
      case ValueTag::kBigInt: {
        Plain plain = MakeText(ReadableText(value.text));
        const std::string_view digits = std::string_view(plain.text).substr(plain.text.starts_with('-') ? 1 : 0);
        const bool decimal =
            !digits.empty() && std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
        if (!decimal) return Tagged("int", std::move(plain));
        plain.kind = Plain::kBigInt;
        return plain;
      }
      case ValueTag::kFloat:
        return MakeFloat(value.real);
      case ValueTag::kComplex:
        return Tagged("complex", MakeList({MakeFloat(value.real), MakeFloat(value.imaginary)}));
      case ValueTag::kString:
        return StringToPlain(value);
      case ValueTag::kBytes:
        return BytesToPlain(value);
      case ValueTag::kList:
        return Items("list", value);
      case ValueTag::kTuple:
        return Items("tuple", value);
      case ValueTag::kSet:
        return Items("set", value);
      case ValueTag::kFrozenSet:
        return Items("frozenset", value);
      case ValueTag::kSize:
        return Items(Own("Size"), value);
      case ValueTag::kSlice:
        return Items("slice", value);
      case ValueTag::kRange:
        return Items("range", value);
      case ValueTag::kDict:
        return Dict(value);
      case ValueTag::kEllipsis:
        return Tagged("ellipsis", "...");
      case ValueTag::kTensor:
        return Tensor(value);
      case ValueTag::kUndefined: {
        Plain tagged = Tagged(Own("Tensor"));
        tagged.fields.push_back({"defined", MakeBool(false)});
        return tagged;
      }
      case ValueTag::kDtype:
        return Tagged(Own("dtype"), Own(value.text));
      case ValueTag::kDevice:
        return Tagged(Own("device"), value.text);
      case ValueTag::kLayout:
        return Tagged(Own("layout"), Own(value.text));
      case ValueTag::kMemoryFormat:
        return Tagged(Own("memory_format"), Own(value.text));
      case ValueTag::kGenerator: {
        Plain tagged = Tagged(Own("Generator"));
        tagged.fields.push_back({"device", MakeText(ReadableText(value.text))});
        return tagged;
      }
      case ValueTag::kStorage: {
        Plain tagged = Tagged(Own("UntypedStorage"));
        tagged.fields.push_back({"device", MakeText(ReadableText(value.text))});
        tagged.fields.push_back({"nbytes", value.whole == kAnyBytes ? MakeText(kAnyName) : MakeUint(value.whole)});
        return tagged;
      }
      case ValueTag::kFunction:
        return Tagged("function", value.text);
      case ValueTag::kType:
        return Tagged("type", value.text);
      case ValueTag::kNdarray: {
        Plain tagged = Tagged("numpy.ndarray");
        tagged.fields.push_back({"shape", DimsToPlain(value.shape)});
        tagged.fields.push_back({"dtype", MakeText(ReadableText(value.text))});
        return tagged;
      }
      case ValueTag::kNumpyScalar: {
        Plain tagged = Tagged("numpy.generic");
        tagged.fields.push_back({"dtype", MakeText(ReadableText(value.text))});
        return tagged;
      }
      case ValueTag::kObject:
        return Tagged("object", value.text);
      case ValueTag::kSymbol:
        return Tagged("symbol", value.text);
      case ValueTag::kDeep:
        return Tagged("deep", "...");
    }
    return Plain();
  }

 private:
  // torch.float32
  std::string Own(std::string_view name) const {
    std::string text(framework_);
    text.push_back('.');
    text.append(name);
    return text;
  }

  // The name of a dtype or layout, which may be coarsened.
  Plain OwnName(std::string_view name) const {
    return name == kAnyName ? MakeText(name) : MakeText(ReadableText(Own(name)));
  }

  std::vector<Plain> ConvertAll(const std::vector<Value>& values) {
    std::vector<Plain> items;
    items.reserve(values.size());
    for (const Value& value : values) items.push_back(Convert(value));
    return items;
  }

  Plain Items(std::string_view type, const Value& value) {
    Plain tagged = Tagged(type, MakeList(ConvertAll(value.items)));
    if (IsContainer(value.tag)) AddCut(value.whole, value.items.size(), &tagged);
    return tagged;
  }

  // A map if all keys are plain strings, otherwise a list of pairs: not every reader accepts other keys, and cut
  // strings may have become equal.
  Plain Dict(const Value& value) {
    bool as_map = true;
    for (size_t i = 0; i < value.items.size(); i += 2) {
      const Value& key = value.items[i];
      as_map = as_map && key.tag == ValueTag::kString && key.whole <= key.text.size() && IsValidUtf8(key.text);
    }
    Plain content;
    content.kind = as_map ? Plain::kMap : Plain::kList;
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      if (as_map) {
        content.fields.push_back({value.items[i].text, Convert(value.items[i + 1])});
      } else {
        Plain key = Convert(value.items[i]);
        content.items.push_back(MakeList({std::move(key), Convert(value.items[i + 1])}));
      }
    }
    Plain tagged = Tagged("dict", std::move(content));
    AddCut(value.whole, value.items.size() / 2, &tagged);
    return tagged;
  }

  Plain Tensor(const Value& value) {
    Plain tagged = Tagged(Own("Tensor"));
    const bool shaped = (value.tensor_bits & kTensorShapeUnknown) == 0;
    tagged.fields.push_back({"shape", shaped ? DimsToPlain(value.shape) : Plain()});
    tagged.fields.push_back({"dtype", OwnName(value.text)});
    tagged.fields.push_back({"device", MakeText(ReadableText(value.device))});
    if (shaped && (value.tensor_bits & kTensorHasStride) != 0) {
      tagged.fields.push_back({"stride", DimsToPlain(value.strides)});
    }
    if ((value.tensor_bits & kTensorHasLayout) != 0) {
      tagged.fields.push_back({"layout", OwnName(value.layout)});
    }
    const uint64_t ordinal = tensors_++;
    if (facets_ == nullptr) return tagged;
    for (const TensorFacet& facet : *facets_) {
      if (facet.tensor != ordinal) continue;
      if (!facet.subclass.empty()) {
        tagged.fields.push_back({"subclass", MakeText(ReadableText(facet.subclass))});
      }
      if (facet.requires_grad) tagged.fields.push_back({"requires_grad", MakeBool(true)});
    }
    return tagged;
  }

  const std::string_view framework_;
  const std::vector<TensorFacet>* facets_;  // not owned; null: none
  uint64_t tensors_ = 0;
};

}  // namespace

PlainCall ToPlain(const Config& config, const std::vector<TensorFacet>& facets) {
  PlainCall call;
  Converter converter(config.framework(), &facets);
  for (const Value& arg : config.args) call.args.push_back(converter.Convert(arg));
  for (const auto& [name, value] : config.kwargs) {
    call.kwargs.push_back({ReadableText(name), converter.Convert(value)});
  }
  return call;
}

Plain ToPlain(const Value& value) { return Converter(kFrameworks[0], nullptr).Convert(value); }

}  // namespace torchtrace
