#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/bytes.h"
#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/model/unknown_arguments.h"

namespace torchtrace {
namespace {

absl::Status Expected(const std::string& where, const char* what, const Plain& found) {
  return absl::InvalidArgumentError(absl::StrCat(where, ": expected ", what, ", found ", DescribePlain(found)));
}

// A name for an error: short, and on one line.
std::string Shown(std::string_view name) {
  const std::string quoted = QuoteText(name.substr(0, 40));
  return quoted.substr(1, quoted.size() - 2);
}

void CutFramework(std::string* name) {
  if (const std::string_view framework = FrameworkOf(*name); !framework.empty()) name->erase(0, framework.size() + 1);
}

// Types of a framework's values, without the framework's name.
constexpr std::string_view kOwnTypes[] = {"Tensor", "Size",   "UntypedStorage", "dtype",
                                          "device", "layout", "memory_format",  "Generator"};

class PlainReader {
 public:
  absl::Status Convert(const Plain& plain, const std::string& where, int depth, Value* value) {
    switch (plain.kind) {
      case Plain::kNull:
        return absl::OkStatus();
      case Plain::kBool:
        value->tag = plain.boolean ? ValueTag::kTrue : ValueTag::kFalse;
        return absl::OkStatus();
      case Plain::kInt:
        value->tag = ValueTag::kInt;
        value->integer = plain.integer;
        return absl::OkStatus();
      case Plain::kBigInt:
        value->tag = ValueTag::kBigInt;
        value->text = plain.text;
        return absl::OkStatus();
      case Plain::kFloat:
        value->tag = ValueTag::kFloat;
        value->real = plain.real;
        return absl::OkStatus();
      case Plain::kString:
        value->tag = ValueTag::kString;
        value->text = plain.text;
        value->whole = plain.text.size();
        return absl::OkStatus();
      case Plain::kList:
        return Items(plain, ValueTag::kList, where, depth, value);
      case Plain::kMap:
        return Map(plain, where, depth, value);
    }
    return absl::OkStatus();
  }

  // The framework of the values; empty: none.
  const std::string& framework() const { return framework_; }
  // The place of a value of another framework; empty: none.
  const std::string& mixed() const { return mixed_; }

  // varint n, n facets, as in config.h; empty if there are none.
  std::string Facets() const {
    if (facet_count_ == 0) return "";
    std::string facets;
    AppendVarint(facet_count_, &facets);
    return facets + facets_;
  }

 private:
  absl::Status Map(const Plain& map, const std::string& where, int depth, Value* value) {
    const Plain* const type = FindField(map, "type");
    // Without a type it is a dict.
    if (type == nullptr || type->kind != Plain::kString) return Dict(map, where, depth, value);
    const std::string_view name = OwnName(type->text, where);
    static constexpr std::pair<std::string_view, ValueTag> kContainers[] = {{"list", ValueTag::kList},
                                                                            {"tuple", ValueTag::kTuple},
                                                                            {"set", ValueTag::kSet},
                                                                            {"frozenset", ValueTag::kFrozenSet},
                                                                            {"Size", ValueTag::kSize}};
    for (const auto& [container, tag] : kContainers) {
      if (name != container) continue;
      const Plain* const items = FindField(map, "value");
      if (items == nullptr || items->kind != Plain::kList) {
        return Expected(where + ".value", "a list", items == nullptr ? Plain() : *items);
      }
      if (absl::Status s = Items(*items, tag, where, depth, value); !s.ok()) return s;
      return Cut(map, where, value->items.size(), value);
    }
    if (name == "dict") {
      const Plain* const content = FindField(map, "value");
      if (content == nullptr || (content->kind != Plain::kMap && content->kind != Plain::kList)) {
        return Expected(where + ".value", "a map or a list of pairs", content == nullptr ? Plain() : *content);
      }
      if (absl::Status s = Dict(*content, where, depth, value); !s.ok()) return s;
      return Cut(map, where, value->items.size() / 2, value);
    }
    if (name == "Tensor") return Tensor(map, where, value);
    if (name == "slice" || name == "range") return Three(map, name, where, depth, value);
    if (name == "ellipsis" || name == "deep") {
      value->tag = name == "deep" ? ValueTag::kDeep : ValueTag::kEllipsis;
      return absl::OkStatus();
    }
    if (name == "str" || name == "bytes") return Text(map, name == "bytes", where, value);
    if (name == "complex") return Complex(map, where, value);
    if (name == "float") return Float(map, where, value);
    if (name == "numpy.ndarray") {
      value->tag = ValueTag::kNdarray;
      if (absl::Status s = Dims(map, "shape", where, &value->shape); !s.ok()) return s;
      return Text(map, "dtype", where, &value->text);
    }
    if (name == "UntypedStorage") {
      value->tag = ValueTag::kStorage;
      if (absl::Status s = Text(map, "device", where, &value->text); !s.ok()) return s;
      const Plain* const bytes = FindField(map, "nbytes");
      if (bytes != nullptr && bytes->kind == Plain::kString && bytes->text == kAnyName) {
        value->whole = kAnyBytes;
        return absl::OkStatus();
      }
      return Unsigned(map, "nbytes", where, &value->whole);
    }
    struct Named {
      std::string_view type;
      ValueTag tag;
      const char* field;
      bool own;  // the name is the framework's
    };
    static constexpr Named kNamed[] = {{"int", ValueTag::kBigInt, "value", false},
                                       {"dtype", ValueTag::kDtype, "value", true},
                                       {"device", ValueTag::kDevice, "value", false},
                                       {"layout", ValueTag::kLayout, "value", true},
                                       {"memory_format", ValueTag::kMemoryFormat, "value", true},
                                       {"Generator", ValueTag::kGenerator, "device", false},
                                       {"function", ValueTag::kFunction, "value", false},
                                       {"type", ValueTag::kType, "value", false},
                                       {"object", ValueTag::kObject, "value", false},
                                       {"symbol", ValueTag::kSymbol, "value", false},
                                       {"numpy.generic", ValueTag::kNumpyScalar, "dtype", false}};
    for (const Named& named : kNamed) {
      if (name != named.type) continue;
      value->tag = named.tag;
      if (absl::Status s = Text(map, named.field, where, &value->text); !s.ok()) return s;
      if (named.own) CutFramework(&value->text);
      return absl::OkStatus();
    }
    // An unknown kind of value keeps its name.
    value->tag = ValueTag::kObject;
    value->text = type->text;
    return absl::OkStatus();
  }

  absl::Status Enter(const std::string& where, int depth) const {
    if (depth < kMaxValueDepth) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(where, ": expected at most ", kMaxValueDepth, " levels of nesting"));
  }

  absl::Status Items(const Plain& list, ValueTag tag, const std::string& where, int depth, Value* value) {
    if (absl::Status s = Enter(where, depth); !s.ok()) return s;
    value->tag = tag;
    value->items.resize(list.items.size());
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (absl::Status s = Convert(list.items[i], absl::StrCat(where, "[", i, "]"), depth + 1, &value->items[i]);
          !s.ok()) {
        return s;
      }
    }
    value->whole = value->items.size();
    return absl::OkStatus();
  }

  absl::Status Dict(const Plain& content, const std::string& where, int depth, Value* value) {
    if (absl::Status s = Enter(where, depth); !s.ok()) return s;
    value->tag = ValueTag::kDict;
    if (content.kind == Plain::kMap) {
      value->items.resize(2 * content.fields.size());
      for (size_t i = 0; i < content.fields.size(); ++i) {
        const auto& [name, item] = content.fields[i];
        Value& key = value->items[2 * i];
        key.tag = ValueTag::kString;
        key.text = name;
        key.whole = name.size();
        if (absl::Status s = Convert(item, absl::StrCat(where, ".", Shown(name)), depth + 1, &value->items[2 * i + 1]);
            !s.ok()) {
          return s;
        }
      }
    } else {
      value->items.resize(2 * content.items.size());
      for (size_t i = 0; i < content.items.size(); ++i) {
        const std::string pair_where = absl::StrCat(where, "[", i, "]");
        const Plain& pair = content.items[i];
        if (pair.kind != Plain::kList || pair.items.size() != 2) return Expected(pair_where, "a key and a value", pair);
        for (size_t j = 0; j < 2; ++j) {
          if (absl::Status s = Convert(pair.items[j], pair_where, depth + 1, &value->items[2 * i + j]); !s.ok()) {
            return s;
          }
        }
      }
    }
    value->whole = value->items.size() / 2;
    return absl::OkStatus();
  }

  // How much was left out besides the `shown` items.
  absl::Status Cut(const Plain& map, const std::string& where, uint64_t shown, Value* value) {
    uint64_t cut = 0;
    if (FindField(map, "cut") != nullptr) {
      if (absl::Status s = Unsigned(map, "cut", where, &cut); !s.ok()) return s;
    }
    if (cut > UINT64_MAX - shown) return Expected(where + ".cut", "a smaller number", *FindField(map, "cut"));
    value->whole = shown + cut;
    return absl::OkStatus();
  }

  // [start, stop, step], or api_tracer's {start, stop, step}.
  absl::Status Three(const Plain& map, std::string_view name, const std::string& where, int depth, Value* value) {
    const Plain* const content = FindField(map, "value");
    Plain list;
    list.kind = Plain::kList;
    if (content != nullptr && content->kind == Plain::kMap) {
      for (const char* const part : {"start", "stop", "step"}) {
        const Plain* const field = FindField(*content, part);
        list.items.push_back(field == nullptr ? Plain() : *field);
      }
    } else if (content != nullptr && content->kind == Plain::kList && content->items.size() == 3) {
      list = *content;
    } else {
      return Expected(where + ".value", "start, stop and step", content == nullptr ? Plain() : *content);
    }
    if (absl::Status s = Items(list, ValueTag::kTuple, where, depth, value); !s.ok()) return s;
    value->tag = name == "slice" ? ValueTag::kSlice : ValueTag::kRange;
    value->whole = 0;
    return absl::OkStatus();
  }

  absl::Status Text(const Plain& map, const char* field, const std::string& where, std::string* text) {
    const Plain* const found = FindField(map, field);
    if (found == nullptr || found->kind != Plain::kString) {
      return Expected(absl::StrCat(where, ".", field), "a string", found == nullptr ? Plain() : *found);
    }
    *text = found->text;
    return absl::OkStatus();
  }

  absl::Status Text(const Plain& map, bool bytes, const std::string& where, Value* value) {
    value->tag = bytes ? ValueTag::kBytes : ValueTag::kString;
    const bool escaped = FindField(map, "escaped") != nullptr;
    std::string text;
    if (absl::Status s = Text(map, escaped ? "escaped" : "value", where, &text); !s.ok()) return s;
    if (escaped) {
      const absl::StatusOr<Value> unescaped = ParseValueText(absl::StrCat("\"", text, "\""));
      if (!unescaped.ok() || unescaped->tag != ValueTag::kString) {
        return Expected(where + ".escaped", "a string with the text form's escapes", *FindField(map, "escaped"));
      }
      value->text = unescaped->text;
    } else if (!bytes) {
      value->text = std::move(text);
    } else {
      for (std::string_view rest = text; !rest.empty();) {
        const Utf8Char c = DecodeUtf8(rest);
        if (c.kind != Utf8Char::kScalar || c.code_point > 0xff) {
          return Expected(where + ".value", "each byte as the character of its number", *FindField(map, "value"));
        }
        value->text.push_back(static_cast<char>(c.code_point));
        rest.remove_prefix(c.bytes);
      }
    }
    return Cut(map, where, value->text.size(), value);
  }

  static bool AsDouble(const Plain& plain, double* real) {
    if (plain.kind == Plain::kFloat) *real = plain.real;
    if (plain.kind == Plain::kInt) *real = static_cast<double>(plain.integer);
    if (plain.kind == Plain::kMap) {
      const Plain* const value = FindField(plain, "value");
      return value != nullptr && value->kind == Plain::kString && WordAsDouble(value->text, real);
    }
    return plain.kind == Plain::kFloat || plain.kind == Plain::kInt;
  }

  // Numbers that JSON can't represent.
  static bool WordAsDouble(std::string_view word, double* real) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (word == "inf" || word == "-inf") {
      *real = word == "inf" ? kInfinity : -kInfinity;
    } else if (word == "nan") {
      *real = std::numeric_limits<double>::quiet_NaN();
    } else {
      return false;
    }
    return true;
  }

  absl::Status Float(const Plain& map, const std::string& where, Value* value) {
    value->tag = ValueTag::kFloat;
    if (AsDouble(map, &value->real)) return absl::OkStatus();
    const Plain* const found = FindField(map, "value");
    return Expected(where + ".value", "\"inf\", \"-inf\" or \"nan\"", found == nullptr ? Plain() : *found);
  }

  absl::Status Complex(const Plain& map, const std::string& where, Value* value) {
    value->tag = ValueTag::kComplex;
    const Plain* const parts = FindField(map, "value");
    if (parts != nullptr && parts->kind == Plain::kList && parts->items.size() == 2 &&
        AsDouble(parts->items[0], &value->real) && AsDouble(parts->items[1], &value->imaginary)) {
      return absl::OkStatus();
    }
    return Expected(where + ".value", "the real and the imaginary part", parts == nullptr ? Plain() : *parts);
  }

  absl::Status Unsigned(const Plain& map, const char* field, const std::string& where, uint64_t* number) {
    const Plain* const found = FindField(map, field);
    if (found != nullptr && found->kind == Plain::kInt && found->integer >= 0) {
      *number = static_cast<uint64_t>(found->integer);
      return absl::OkStatus();
    }
    const Plain* digits = found;
    // The JSON form of a number beyond 63 bits.
    if (found != nullptr && found->kind == Plain::kMap) digits = FindField(*found, "value");
    if (digits != nullptr && (digits->kind == Plain::kBigInt || digits->kind == Plain::kString)) {
      const char* const end = digits->text.data() + digits->text.size();
      const auto [at, error] = std::from_chars(digits->text.data(), end, *number);
      if (error == std::errc() && at == end) return absl::OkStatus();
    }
    return Expected(absl::StrCat(where, ".", field), "a number from 0", found == nullptr ? Plain() : *found);
  }

  absl::Status Dims(const Plain& map, const char* field, const std::string& where, std::vector<Dim>* dims) {
    const Plain* sizes = FindField(map, field);
    // {type: torch.Size, value: [2, 3]}
    if (sizes != nullptr && sizes->kind == Plain::kMap) sizes = FindField(*sizes, "value");
    if (sizes == nullptr || sizes->kind != Plain::kList) {
      return Expected(absl::StrCat(where, ".", field), "a list of sizes", sizes == nullptr ? Plain() : *sizes);
    }
    for (const Plain& size : sizes->items) {
      if (size.kind == Plain::kInt) {
        dims->emplace_back(size.integer);
      } else if (size.kind == Plain::kString) {
        dims->push_back(size.text == kAnyName ? Dim(kAnySize) : Dim());
      } else {
        return Expected(absl::StrCat(where, ".", field), "sizes", size);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Tensor(const Plain& map, const std::string& where, Value* value) {
    const Plain* const defined = FindField(map, "defined");
    if (defined != nullptr && defined->kind == Plain::kBool && !defined->boolean) {
      value->tag = ValueTag::kUndefined;
      return absl::OkStatus();
    }
    value->tag = ValueTag::kTensor;
    const Plain* const shape = FindField(map, "shape");
    if (shape == nullptr || shape->kind == Plain::kNull) {
      value->tensor_bits |= kTensorShapeUnknown;
    } else {
      if (absl::Status s = Dims(map, "shape", where, &value->shape); !s.ok()) return s;
    }
    if (absl::Status s = Text(map, "dtype", where, &value->text); !s.ok()) return s;
    CutFramework(&value->text);
    value->device = "cpu";
    if (FindField(map, "device") != nullptr) {
      if (absl::Status s = Text(map, "device", where, &value->device); !s.ok()) return s;
    }
    if (FindField(map, "stride") != nullptr && (value->tensor_bits & kTensorShapeUnknown) == 0) {
      value->tensor_bits |= kTensorHasStride;
      if (absl::Status s = Dims(map, "stride", where, &value->strides); !s.ok()) return s;
      if (value->strides.size() != value->shape.size()) {
        return Expected(where + ".stride", "as many as sizes", *FindField(map, "stride"));
      }
    }
    if (FindField(map, "layout") != nullptr) {
      value->tensor_bits |= kTensorHasLayout;
      if (absl::Status s = Text(map, "layout", where, &value->layout); !s.ok()) return s;
      CutFramework(&value->layout);
    }
    const uint64_t ordinal = tensors_++;
    const Plain* const grad = FindField(map, "requires_grad");
    const Plain* const subclass = FindField(map, "subclass");
    uint64_t bits = 0;
    if (grad != nullptr && grad->kind == Plain::kBool && grad->boolean) bits |= kFacetRequiresGrad;
    if (subclass != nullptr && subclass->kind == Plain::kString) bits |= kFacetSubclass;
    if (bits == 0) return absl::OkStatus();
    ++facet_count_;
    AppendVarint(ordinal, &facets_);
    AppendVarint(bits, &facets_);
    if ((bits & kFacetSubclass) != 0) AppendString(subclass->text, &facets_);
    return absl::OkStatus();
  }

  // Tensor for torch.Tensor and paddle.Tensor; notes the framework. Names without a framework stay.
  std::string_view OwnName(std::string_view type, const std::string& where) {
    const std::string_view framework = FrameworkOf(type);
    const std::string_view name = framework.empty() ? type : type.substr(framework.size() + 1);
    const bool own = std::find(std::begin(kOwnTypes), std::end(kOwnTypes), name) != std::end(kOwnTypes);
    if (framework.empty()) return own ? "" : type;
    if (!own) return type;
    if (framework_.empty()) framework_ = framework;
    if (framework_ != framework && mixed_.empty()) mixed_ = where;
    return name;
  }

  std::string framework_, mixed_;
  uint64_t tensors_ = 0;
  uint64_t facet_count_ = 0;
  std::string facets_;  // without their number
};

// Rejects duplicate names in a call or its kwargs, because either value could be meant.
absl::Status CheckNamedOnce(const Plain& map, const std::string& where) {
  absl::flat_hash_set<std::string_view> names;
  for (const PlainField& field : map.fields) {
    if (names.insert(field.name).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, Shown(field.name), ": given twice; expected it once"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedCall> ParsePlainCall(const Plain& item) {
  if (item.kind != Plain::kMap) return Expected("a call", "a map with api, args and kwargs", item);
  const Plain* const api = FindField(item, "api");
  if (absl::Status s = CheckNamedOnce(item, ""); !s.ok()) return s;
  if (api == nullptr || api->kind != Plain::kString || api->text.empty()) {
    return Expected("api", "the API's name", api == nullptr ? Plain() : *api);
  }
  Config config;
  config.api = api->text;
  config.level = GuessLevel(config.api);
  if (const Plain* const level = FindField(item, "level"); level != nullptr && level->kind == Plain::kNull) {
    config.level = kAnyLevel;
  } else if (level != nullptr) {
    const int most = AllLevels().back().number;
    if (level->kind != Plain::kInt || level->integer < 0 || level->integer > most) {
      return Expected("level", absl::StrCat("a level from 0 to ", most).c_str(), *level);
    }
    config.level = static_cast<int>(level->integer);
  }
  // Lists of names or of counts have no arguments.
  if (FindField(item, "args") == nullptr && FindField(item, "kwargs") == nullptr) config.args = {UnknownArguments()};
  PlainReader converter;
  if (const Plain* const args = FindField(item, "args"); args != nullptr && args->kind != Plain::kNull) {
    if (args->kind != Plain::kList) return Expected("args", "a list", *args);
    config.args.resize(args->items.size());
    for (size_t i = 0; i < args->items.size(); ++i) {
      const absl::Status s = converter.Convert(args->items[i], absl::StrCat("args[", i, "]"), 0, &config.args[i]);
      if (!s.ok()) return s;
    }
  }
  if (const Plain* const kwargs = FindField(item, "kwargs"); kwargs != nullptr && kwargs->kind != Plain::kNull) {
    if (kwargs->kind != Plain::kMap) return Expected("kwargs", "a map", *kwargs);
    if (absl::Status s = CheckNamedOnce(*kwargs, "kwargs."); !s.ok()) return s;
    for (const auto& [name, plain] : kwargs->fields) {
      Value& value = config.kwargs.emplace_back(name, Value()).second;
      if (absl::Status s = converter.Convert(plain, "kwargs." + Shown(name), 0, &value); !s.ok()) return s;
    }
  }
  ParsedCall call;
  for (const char* const name : {"calls", "count"}) {
    const Plain* const count = FindField(item, name);
    if (count == nullptr) continue;
    if (count->kind != Plain::kInt || count->integer < 0 || static_cast<uint64_t>(count->integer) > kMaxCount) {
      return Expected(name, "a number of calls", *count);
    }
    call.count = static_cast<uint64_t>(count->integer);
    break;
  }
  if (!converter.mixed().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(converter.mixed(), ": expected values of ", converter.framework(), ", as others of the call are"));
  }
  if (converter.framework() != FrameworkOfApi(config.api)) config.other_framework = converter.framework();
  call.identity = EncodeConfig(config);
  call.facets = converter.Facets();
  return call;
}

const Plain* FindField(const Plain& map, const char* name) {
  for (const PlainField& field : map.fields) {
    if (field.name == name) return &field.value;
  }
  return nullptr;
}

std::string DescribePlain(const Plain& plain) {
  switch (plain.kind) {
    case Plain::kNull:
      return "nothing";
    case Plain::kBool:
      return plain.boolean ? "true" : "false";
    case Plain::kInt:
      return std::to_string(plain.integer);
    case Plain::kBigInt:
      return plain.text.substr(0, 24);
    case Plain::kFloat:
      return FormatFloat(plain.real);
    case Plain::kString:
      return QuoteText(std::string_view(plain.text).substr(0, 40));
    case Plain::kList:
      return "a list";
    case Plain::kMap:
      return "a map";
  }
  return "";
}

}  // namespace torchtrace
