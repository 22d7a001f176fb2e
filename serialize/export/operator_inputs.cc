#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "serialize/base/text.h"
#include "serialize/export/spellings.h"
#include "serialize/forms/forms.h"
#include "serialize/model/levels.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

// Writes values as Python's repr does, and remembers the first value that it can't write.
class InputsWriter final : private PythonWriter {
 public:
  absl::StatusOr<std::string> Write(const Config& config) {
    Value args;
    args.tag = ValueTag::kTuple;
    args.items = config.args;
    out_ += "(";
    Append(args);
    out_ += ", {";
    const char* separator = "";
    for (const auto& [name, value] : config.kwargs) {
      out_ += separator;
      separator = ", ";
      Text(name);
      out_ += ": ";
      Append(value);
    }
    out_ += "})";
    return Finish();
  }

 private:
  void Text(std::string_view text) override {
    // The loader strips the quotes of these anywhere in the expression.
    if (!LoaderAbbreviation(DtypeOfAbbreviation(text)).empty()) {
      Cannot("a string that TorchBench's loader takes for a dtype");
    }
    const bool double_quotes = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
    const char quote = double_quotes ? '"' : '\'';
    out_ += quote;
    while (!text.empty()) {
      const Utf8Char c = DecodeUtf8(text);
      if (c.kind == Utf8Char::kInvalid) Cannot("a string that is not UTF-8");
      if (c.code_point == static_cast<unsigned char>(quote) || c.code_point == '\\') {
        out_ += '\\';
        out_ += text[0];
      } else if (c.code_point == '\n') {
        out_ += "\\n";
      } else if (c.code_point == '\t') {
        out_ += "\\t";
      } else if (c.code_point == '\r') {
        out_ += "\\r";
      } else if (c.kind == Utf8Char::kScalar && !NeedsEscape(c.code_point)) {
        out_ += text.substr(0, c.bytes);
      } else if (c.code_point < 0x100) {
        absl::StrAppendFormat(&out_, "\\x%02x", c.code_point);
      } else if (c.code_point < 0x10000) {
        absl::StrAppendFormat(&out_, "\\u%04x", c.code_point);
      } else {
        absl::StrAppendFormat(&out_, "\\U%08x", c.code_point);
      }
      text.remove_prefix(c.bytes);
    }
    out_ += quote;
  }

  // The loader knows inf but not nan.
  void Float(double value) override { out_ += std::isnan(value) ? "float('nan')" : FormatFloat(value); }

  void Dtype(std::string_view name) {
    const std::string_view abbreviation = LoaderAbbreviation(name);
    if (abbreviation.empty()) return TorchName(name);
    out_ += abbreviation;
  }

  void Tensor(const Value& value) {
    // ST(...) of a sparse tensor needs is_coalesced, which isn't recorded.
    RefuseUnusual(value);
    out_ += "T(";
    AppendDims(value.shape, '[', ']');
    out_ += ", ";
    Dtype(value.text);
    if ((value.tensor_bits & kTensorHasStride) != 0) {
      out_ += ", stride=";
      AppendDims(value.strides, '(', ')');
    }
    out_ += ')';
  }

  void AppendOther(const Value& value) override {
    switch (value.tag) {
      case ValueTag::kTensor:
        return Tensor(value);
      case ValueTag::kDtype:
        return Dtype(value.text);
      case ValueTag::kDevice:
        return Text(std::string_view(value.text).substr(0, value.text.find(':')));
      default:
        return Cannot(ValueKind(value));
    }
  }
};

}  // namespace

absl::StatusOr<std::string> OperatorName(const Config& config) {
  if (config.level != kDispatchLevel) return absl::UnimplementedError("not of level 2");
  constexpr std::string_view kAten = "aten::";
  const std::string_view api = config.api;
  if (api.substr(0, kAten.size()) != kAten) return absl::UnimplementedError("an operator outside aten");
  const std::string_view name = api.substr(kAten.size());
  const size_t dot = name.find('.');
  const std::string_view overload = dot == std::string_view::npos ? "default" : name.substr(dot + 1);
  const std::string_view base = name.substr(0, dot);
  if (!IsWord(base) || !IsWord(overload)) return absl::UnimplementedError("a name that is not an operator's");
  return absl::StrCat("aten.", std::string(base), ".", std::string(overload));
}

absl::StatusOr<std::string> OperatorInputs(const Config& config) { return InputsWriter().Write(config); }

}  // namespace torchtrace
