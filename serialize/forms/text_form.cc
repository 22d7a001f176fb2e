#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>

#include "serialize/base/text.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/text_parts.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_types.h"
#include "serialize/model/unknown_arguments.h"

namespace torchtrace {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void AppendHexByte(uint8_t byte, std::string* out) {
  out->append("\\x");
  out->push_back(kHex[byte >> 4]);
  out->push_back(kHex[byte & 15]);
}

// Appends the escapes that strings and bytes share; false for any other character.
bool AppendCommonEscape(uint32_t c, std::string* out) {
  switch (c) {
    case '"':
      out->append("\\\"");
      return true;
    case '\\':
      out->append("\\\\");
      return true;
    case '\n':
      out->append("\\n");
      return true;
    case '\r':
      out->append("\\r");
      return true;
    case '\t':
      out->append("\\t");
      return true;
    default:
      return false;
  }
}

// Whether `text` begins with a lone surrogate that would combine into one character with `high` before it.
bool CompletesSurrogate(uint32_t high, std::string_view text) {
  if (high >= 0xdc00 || text.empty()) return false;
  const Utf8Char c = DecodeUtf8(text);
  return c.kind == Utf8Char::kSurrogate && c.code_point >= 0xdc00;
}

void AppendQuoted(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    const Utf8Char c = DecodeUtf8(text);
    if (c.kind == Utf8Char::kInvalid) {
      AppendHexByte(static_cast<uint8_t>(c.code_point), out);
    } else if (c.kind == Utf8Char::kSurrogate && CompletesSurrogate(c.code_point, text.substr(c.bytes))) {
      for (const char byte : text.substr(0, c.bytes)) AppendHexByte(static_cast<uint8_t>(byte), out);
    } else if (c.kind == Utf8Char::kSurrogate) {
      AppendUtf16Escape(c.code_point, out);
    } else if (!AppendCommonEscape(c.code_point, out)) {
      if (!NeedsEscape(c.code_point)) {
        out->append(text.substr(0, c.bytes));
      } else {
        AppendUtf16Escape(c.code_point, out);
      }
    }
    text.remove_prefix(c.bytes);
  }
  out->push_back('"');
}

void AppendQuotedBytes(std::string_view bytes, std::string* out) {
  out->append("b\"");
  for (const char byte : bytes) {
    const uint8_t c = static_cast<uint8_t>(byte);
    if (AppendCommonEscape(c, out)) continue;
    if (c >= 0x20 && c < 0x7f) {
      out->push_back(byte);
    } else {
      AppendHexByte(c, out);
    }
  }
  out->push_back('"');
}

// Names that need no quotes before a parenthesis: no character would end the name or the line.
bool IsBareApi(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7f && std::string_view("()[]{}\"',=").find(c) == std::string_view::npos;
  });
}

bool IsDecimal(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void AppendCall(std::string_view name, std::string_view argument, std::string* out) {
  out->append(name);
  out->push_back('(');
  AppendQuoted(argument, out);
  out->push_back(')');
}

// The name of a dtype, device or layout, which may be coarsened.
void AppendQuotedOrAny(std::string_view name, std::string* out) {
  if (name == kAnyName) {
    out->append(kAnyName);
  } else {
    AppendQuoted(name, out);
  }
}

// The argument may be coarsened.
void AppendCallOrAny(std::string_view name, std::string_view argument, std::string* out) {
  out->append(name);
  out->push_back('(');
  AppendQuotedOrAny(argument, out);
  out->push_back(')');
}

void AppendInt(int64_t value, std::string* out) {
  char digits[24];
  out->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}
void AppendUint(uint64_t value, std::string* out) {
  char digits[24];
  out->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// The length of what was cut off after `shown` bytes of a text.
void AppendCutText(uint64_t whole, uint64_t shown, std::string* out) {
  if (whole <= shown) return;
  out->append("...+");
  AppendUint(whole - shown, out);
}

void AppendDims(const std::vector<Dim>& dims, std::string* out) {
  out->push_back('[');
  const char* separator = "";
  for (const Dim& dim : dims) {
    out->append(separator);
    separator = ", ";
    if (!dim.has_value()) {
      out->append("SymInt");
    } else if (*dim == kAnySize) {
      out->append(kAnyName);
    } else {
      AppendInt(*dim, out);
    }
  }
  out->push_back(']');
}

void AppendStrides(const std::vector<Dim>& strides, std::string* out) {
  const bool forgotten =
      !strides.empty() && std::all_of(strides.begin(), strides.end(), [](Dim dim) { return dim == kAnySize; });
  if (forgotten) {
    out->append(kAnyName);
  } else {
    AppendDims(strides, out);
  }
}

// The names of a config's framework: torch.float32, paddle.float32.
struct Spelling {
  std::string_view framework;
  bool of_tensors = false;  // write paddle.Tensor(...), because the API doesn't imply the framework
  bool folded = false;      // long containers are shortened
  const std::set<const Value*>* with_device = nullptr;
};

// torch.float32 if that name always has this kind, otherwise torch.dtype("float32").
void AppendOwnName(const Spelling& spelling, std::string_view kind, const Value& value, std::string* out) {
  const bool plain = KindOfTorchName(value.text) == value.tag && (value.tag != ValueTag::kDtype || IsWord(value.text));
  out->append(spelling.framework);
  out->push_back('.');
  if (plain) {
    out->append(value.text);
  } else {
    AppendCall(kind, value.text, out);
  }
}

void AppendValue(const Value& value, const Spelling& spelling, std::string* out);

// Folding: this many similar neighbours become one piece, and at most this many pieces of a container are shown.
constexpr size_t kFoldedRun = 4;
constexpr size_t kShownPieces = 6;

// Whether two tensors differ only in sizes and strides.
bool AreSimilar(const Value& a, const Value& b) {
  return a.tag == ValueTag::kTensor && b.tag == ValueTag::kTensor && a.text == b.text && a.device == b.device &&
         a.layout == b.layout && ((a.tensor_bits ^ b.tensor_bits) & ~uint64_t{kTensorHasStride}) == 0;
}

// How many items from `first` on are equal or, if too few are, similar tensors.
size_t RunLength(const std::vector<Value>& items, size_t first) {
  const auto length = [&](const auto& alike) {
    size_t end = first + 1;
    while (end < items.size() && alike(items[first], items[end])) ++end;
    return end - first;
  };
  const size_t equal = length([](const Value& a, const Value& b) { return a == b; });
  return equal >= kFoldedRun ? equal : std::max(equal, length(AreSimilar));
}

// What similar tensors have in common, with placeholders for different sizes. None: their ranks differ.
std::optional<Value> CommonTensor(const Value* first, size_t count) {
  Value common = *first;
  const auto merge = [](const std::vector<Dim>& dims, std::vector<Dim>* into) {
    for (size_t i = 0; i < into->size(); ++i) {
      if ((*into)[i] != dims[i]) (*into)[i] = kAnySize;
    }
  };
  for (const Value* tensor = first + 1; tensor < first + count; ++tensor) {
    if (tensor->shape.size() != common.shape.size()) return std::nullopt;
    merge(tensor->shape, &common.shape);
    if (tensor->strides == common.strides) continue;
    common.tensor_bits |= kTensorHasStride;
    common.strides.assign(common.shape.size(), Dim(kAnySize));
  }
  return common;
}

// `52 x Tensor([*, 768], "float32")`; `[..]` means shapes of several ranks.
void AppendRun(const Value* first, size_t count, const Spelling& spelling, std::string* out) {
  AppendUint(count, out);
  out->append(" x ");
  if (std::all_of(first, first + count, [first](const Value& value) { return value == *first; })) {
    return AppendValue(*first, spelling, out);
  }
  if (const std::optional<Value> common = CommonTensor(first, count); common.has_value()) {
    return AppendValue(*common, spelling, out);
  }
  Value shapeless = *first;
  shapeless.shape.clear();
  shapeless.tensor_bits &= ~uint64_t{kTensorHasStride};
  std::string text;
  AppendValue(shapeless, spelling, &text);
  out->append(text.replace(text.find("[]"), 2, "[..]"));
}

// Folds similar items, and shows only the first of many.
void AppendFoldedItems(const std::vector<Value>& items, const Spelling& spelling, std::string* out) {
  std::vector<size_t> pieces;  // where each begins
  for (size_t i = 0; i < items.size();) {
    pieces.push_back(i);
    const size_t run = RunLength(items, i);
    i += run >= kFoldedRun ? run : 1;
  }
  pieces.push_back(items.size());
  const size_t all = pieces.size() - 1;
  // Showing one more takes no more room than saying that it is left out.
  const size_t shown = all <= kShownPieces + 1 ? all : kShownPieces;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) out->append(", ");
    const size_t count = pieces[i + 1] - pieces[i];
    if (count == 1) {
      AppendValue(items[pieces[i]], spelling, out);
    } else {
      AppendRun(&items[pieces[i]], count, spelling, out);
    }
  }
  if (shown == all) return;
  out->append(", ... ");
  AppendUint(items.size() - pieces[shown], out);
  out->append(" more");
}

// `open` may include the kind's name. A dict's items are pairs.
void AppendItems(const Value& value, std::string_view open, std::string_view close, const Spelling& spelling,
                 std::string* out) {
  const bool pairs = value.tag == ValueTag::kDict;
  const uint64_t shown = value.items.size() / (pairs ? 2 : 1);
  out->append(open);
  const bool folded = spelling.folded && !pairs && IsContainer(value.tag) && value.tag != ValueTag::kSize;
  if (folded) AppendFoldedItems(value.items, spelling, out);
  for (uint64_t i = 0; i < shown && !folded; ++i) {
    if (i > 0) out->append(", ");
    AppendValue(value.items[pairs ? 2 * i : i], spelling, out);
    if (pairs) {
      out->append(": ");
      AppendValue(value.items[2 * i + 1], spelling, out);
    }
  }
  const bool counted = IsContainer(value.tag);
  if (counted && value.whole > shown) {
    out->append(shown > 0 ? ", ...+" : "...+");
    AppendUint(value.whole - shown, out);
  }
  out->append(close);
}

void AppendTensorName(const Spelling& spelling, std::string* out) {
  if (spelling.of_tensors) {
    out->append(spelling.framework);
    out->push_back('.');
  }
  out->append("Tensor");
}

void AppendTensor(const Value& value, const Spelling& spelling, std::string* out) {
  AppendTensorName(spelling, out);
  out->push_back('(');
  if ((value.tensor_bits & kTensorShapeUnknown) != 0) {
    out->append("None");
  } else {
    AppendDims(value.shape, out);
  }
  out->append(", ");
  AppendQuotedOrAny(value.text, out);
  if (value.device != "cpu" || (spelling.with_device != nullptr && spelling.with_device->contains(&value))) {
    out->append(", device=");
    AppendQuotedOrAny(value.device, out);
  }
  if ((value.tensor_bits & kTensorHasStride) != 0 && (value.tensor_bits & kTensorShapeUnknown) == 0) {
    out->append(", stride=");
    AppendStrides(value.strides, out);
  }
  if ((value.tensor_bits & kTensorHasLayout) != 0) {
    out->append(", layout=");
    AppendQuotedOrAny(value.layout, out);
  }
  out->push_back(')');
}

void AppendValue(const Value& value, const Spelling& spelling, std::string* out) {
  switch (value.tag) {
    case ValueTag::kNone:
      out->append("None");
      return;
    case ValueTag::kFalse:
      out->append("False");
      return;
    case ValueTag::kTrue:
      out->append("True");
      return;
    case ValueTag::kInt:
      return AppendInt(value.integer, out);
    case ValueTag::kBigInt:
      if (IsDecimal(value.text)) {
        out->append(value.text);
      } else {
        AppendCall("int", value.text, out);
      }
      return;
    case ValueTag::kFloat:
      out->append(FormatFloat(value.real));
      return;
    case ValueTag::kComplex:
      out->append("complex(");
      out->append(FormatFloat(value.real));
      out->append(", ");
      out->append(FormatFloat(value.imaginary));
      out->push_back(')');
      return;
    case ValueTag::kString:
      AppendQuoted(value.text, out);
      return AppendCutText(value.whole, value.text.size(), out);
    case ValueTag::kBytes:
      AppendQuotedBytes(value.text, out);
      return AppendCutText(value.whole, value.text.size(), out);
    case ValueTag::kList:
      return AppendItems(value, "list[", "]", spelling, out);
    case ValueTag::kTuple:
      return AppendItems(value, "tuple(", ")", spelling, out);
    case ValueTag::kSet:
      return AppendItems(value, "set(", ")", spelling, out);
    case ValueTag::kFrozenSet:
      return AppendItems(value, "frozenset(", ")", spelling, out);
    case ValueTag::kDict:
      return AppendItems(value, "dict{", "}", spelling, out);
    case ValueTag::kSize:
      out->append(spelling.framework);
      return AppendItems(value, ".Size([", "])", spelling, out);
    case ValueTag::kSlice:
      return AppendItems(value, "slice(", ")", spelling, out);
    case ValueTag::kRange:
      return AppendItems(value, "range(", ")", spelling, out);
    case ValueTag::kEllipsis:
      out->append("Ellipsis");
      return;
    case ValueTag::kTensor:
      return AppendTensor(value, spelling, out);
    case ValueTag::kUndefined:
      AppendTensorName(spelling, out);
      out->append("(undefined)");
      return;
    case ValueTag::kDtype:
      return AppendOwnName(spelling, "dtype", value, out);
    case ValueTag::kDevice:
      out->append(spelling.framework);
      return AppendCall(".device", value.text, out);
    case ValueTag::kLayout:
      return AppendOwnName(spelling, "layout", value, out);
    case ValueTag::kMemoryFormat:
      return AppendOwnName(spelling, "memory_format", value, out);
    case ValueTag::kGenerator:
      out->append(spelling.framework);
      return AppendCallOrAny(".Generator", value.text, out);
    case ValueTag::kStorage:
      out->append("Storage(");
      AppendQuotedOrAny(value.text, out);
      out->append(", ");
      if (value.whole == kAnyBytes) {
        out->append(kAnyName);
      } else {
        AppendUint(value.whole, out);
      }
      out->push_back(')');
      return;
    case ValueTag::kFunction:
      return AppendCall("function", value.text, out);
    case ValueTag::kType:
      return AppendCall("type", value.text, out);
    case ValueTag::kNdarray:
      out->append("ndarray(");
      AppendDims(value.shape, out);
      out->append(", ");
      AppendQuotedOrAny(value.text, out);
      out->push_back(')');
      return;
    case ValueTag::kNumpyScalar:
      return AppendCallOrAny("numpy_scalar", value.text, out);
    case ValueTag::kObject:
      return AppendCall("object", value.text, out);
    case ValueTag::kSymbol:
      if (value.text == "SymInt" || value.text == "SymFloat" || value.text == "SymBool" || IsAny(value)) {
        out->append(value.text);
      } else {
        AppendCall("symbol", value.text, out);
      }
      return;
    case ValueTag::kDeep:
      out->append("deep(...)");
      return;
  }
}

}  // namespace

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // to_chars would choose the shorter of the two notations; Python decides by the exponent alone.
  char digits[64];
  const double magnitude = std::fabs(value);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value, format).ptr);
  if (!scientific && text.find('.') == std::string::npos) text.append(".0");
  return text;
}

std::string QuoteText(std::string_view text) {
  std::string out;
  AppendQuoted(text, &out);
  return out;
}

std::string FormatValue(const Value& value, std::string_view framework) {
  std::string out;
  AppendValue(value, {.framework = framework}, &out);
  return out;
}

std::string FormatApi(std::string_view api) { return IsBareApi(api) ? std::string(api) : QuoteText(api); }

namespace {

std::string Format(const Config& config, bool folded, const std::set<const Value*>* with_device = nullptr) {
  const Spelling spelling = {.framework = config.framework(),
                             .of_tensors = !config.other_framework.empty(),
                             .folded = folded,
                             .with_device = with_device};
  std::string out = FormatApi(config.api);
  if (HasUnknownArguments(config)) return out.append("(...)");
  out.push_back('(');
  const char* separator = "";
  for (const Value& arg : config.args) {
    out.append(separator);
    separator = ", ";
    AppendValue(arg, spelling, &out);
  }
  for (const auto& [name, value] : config.kwargs) {
    out.append(separator);
    separator = ", ";
    if (IsWord(name)) {
      out.append(name);
    } else {
      AppendQuoted(name, &out);
    }
    out.push_back('=');
    AppendValue(value, spelling, &out);
  }
  out.push_back(')');
  return out;
}

}  // namespace

std::string FormatConfig(const Config& config) { return Format(config, /*folded=*/false); }
std::string FormatWithDevices(const Config& config, const std::set<const Value*>& with_device) {
  return Format(config, /*folded=*/false, &with_device);
}
std::string FormatFoldedConfig(const Config& config) { return Format(config, /*folded=*/true); }

}  // namespace torchtrace
