#include "serialize/forms/text_tensor.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/forms/text_leaf.h"
#include "serialize/model/placeholder.h"
#include "serialize/model/tensor_strides.h"

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

// The name that a value of this kind is.
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

// What T( and ST( begin with.
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
      Value ignored;  // is_coalesced, nnz: no part of a config
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

}  // namespace torchtrace
