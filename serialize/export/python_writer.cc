#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "serialize/export/spellings.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {

void PythonWriter::Append(const Value& value) {
  RefuseCut(value);
  if (AppendPlain(value)) return;
  switch (value.tag) {
    case ValueTag::kUndefined:  // None in Python
      out_ += "None";
      return;
    case ValueTag::kFloat:
      return Float(value.real);
    case ValueTag::kComplex:
      out_ += "complex(";
      Float(value.real);
      out_ += ", ";
      Float(value.imaginary);
      out_ += ')';
      return;
    case ValueTag::kString:
      return Text(value.text);
    case ValueTag::kBytes:
      return Bytes(value.text);
    case ValueTag::kList:
      return Items("[", value, "]");
    case ValueTag::kTuple:
      return Items("(", value, value.items.size() == 1 ? ",)" : ")");
    case ValueTag::kSet:
      if (!value.items.empty()) return Items("{", value, "}");
      out_ += "set()";
      return;
    case ValueTag::kFrozenSet:
      return value.items.empty() ? Items("frozenset(", value, ")") : Items("frozenset({", value, "})");
    case ValueTag::kSize:
      return Items("torch.Size([", value, "])");
    case ValueTag::kSlice:
      return Items("slice(", value, ")");
    case ValueTag::kRange:
      return Items("range(", value, ")");
    case ValueTag::kDict: {
      out_ += '{';
      for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
        if (i > 0) out_ += ", ";
        Append(value.items[i]);
        out_ += ": ";
        Append(value.items[i + 1]);
      }
      out_ += '}';
      return;
    }
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
      return TorchName(value.text);
    default:
      return AppendOther(value);
  }
}

void PythonWriter::Items(std::string_view open, const Value& value, std::string_view close) {
  out_ += open;
  const char* separator = "";
  for (const Value& item : value.items) {
    out_ += std::exchange(separator, ", ");
    Append(item);
  }
  out_ += close;
}

void PythonWriter::Bytes(std::string_view bytes) {
  out_ += "b'";
  for (const char byte : bytes) {
    if (byte == '\'' || byte == '\\') {
      out_ += '\\';
      out_ += byte;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out_ += byte;
    } else {
      absl::StrAppendFormat(&out_, "\\x%02x", static_cast<uint8_t>(byte));
    }
  }
  out_ += '\'';
}

void PythonWriter::TorchName(std::string_view name) {
  if (!IsDtypeName(name) && KindOfTorchName(name) != ValueTag::kLayout &&
      KindOfTorchName(name) != ValueTag::kMemoryFormat) {
    return Cannot("a dtype, layout or memory format without a name in torch");
  }
  absl::StrAppend(&out_, "torch.", std::string(name));
}

}  // namespace torchtrace
