#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/export/spellings.h"
#include "serialize/model/config.h"
#include "serialize/model/unknown_arguments.h"

namespace torchtrace {
namespace {

// sys.get_int_max_str_digits(): Python's limit for integers in source code.
constexpr size_t kMostDigits = 4300;

// Whether Python accepts the integer, which must not have leading zeros.
bool IsNumber(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.size() <= kMostDigits && text[0] != '0' &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> SpellingWriter::Finish() {
  if (!problem_.empty()) return absl::UnimplementedError(problem_);
  return std::move(out_);
}

void SpellingWriter::Cannot(std::string_view what) {
  if (problem_.empty()) problem_ = what;
}

void SpellingWriter::RefuseCut(const Value& value) {
  const bool text = value.tag == ValueTag::kString || value.tag == ValueTag::kBytes;
  if (text && value.whole > value.text.size()) Cannot("a string that was cut");
  const uint64_t pairs = value.tag == ValueTag::kDict ? 2 : 1;
  if (IsContainer(value.tag) && value.whole > value.items.size() / pairs) Cannot("a container that was cut");
}

void SpellingWriter::RefuseUnusual(const Value& tensor) {
  if ((tensor.tensor_bits & kTensorShapeUnknown) != 0) Cannot("a tensor of unknown shape");
  if ((tensor.tensor_bits & kTensorHasLayout) != 0) Cannot("a tensor that is not strided");
}

bool SpellingWriter::AppendPlain(const Value& value) {
  switch (value.tag) {
    case ValueTag::kNone:
      out_ += "None";
      return true;
    case ValueTag::kFalse:
      out_ += "False";
      return true;
    case ValueTag::kTrue:
      out_ += "True";
      return true;
    case ValueTag::kInt:
      absl::StrAppend(&out_, value.integer);
      return true;
    case ValueTag::kBigInt:
      if (!IsNumber(value.text)) Cannot("an int without its digits, or of too many");
      out_ += value.text;
      return true;
    case ValueTag::kEllipsis:
      out_ += "Ellipsis";
      return true;
    default:
      return false;
  }
}

void SpellingWriter::AppendDims(const std::vector<Dim>& dims, char open, char close) {
  out_ += open;
  const char* separator = "";
  for (const Dim& dim : dims) {
    if (!dim.has_value()) Cannot("a symbolic size");
    absl::StrAppend(&out_, separator, dim.value_or(0));
    separator = ", ";
  }
  if (open == '(' && dims.size() == 1) out_ += ',';
  out_ += close;
}

std::string_view ValueKind(const Value& value) {
  switch (value.tag) {
    case ValueTag::kBytes:
      return "bytes";
    case ValueTag::kSet:
    case ValueTag::kFrozenSet:
      return "a set";
    case ValueTag::kDict:
      return "a dict";
    case ValueTag::kRange:
      return "a range";
    case ValueTag::kUndefined:
      return "an undefined tensor";
    case ValueTag::kLayout:
      return "a layout";
    case ValueTag::kMemoryFormat:
      return "a memory format";
    case ValueTag::kGenerator:
      return "a torch.Generator";
    case ValueTag::kStorage:
      return "a storage";
    case ValueTag::kFunction:
      return "a function";
    case ValueTag::kType:
      return "a type";
    case ValueTag::kNdarray:
    case ValueTag::kNumpyScalar:
      return "a NumPy value";
    case ValueTag::kObject:
      return "an object of another library";
    case ValueTag::kSymbol:
      return value.text == kUnknownArguments ? "arguments that aren't known" : "a symbolic number";
    case ValueTag::kDeep:
      return "a container nested too deeply";
    case ValueTag::kNone:
    case ValueTag::kFalse:
    case ValueTag::kTrue:
    case ValueTag::kInt:
    case ValueTag::kBigInt:
    case ValueTag::kFloat:
    case ValueTag::kComplex:
    case ValueTag::kString:
    case ValueTag::kList:
    case ValueTag::kTuple:
    case ValueTag::kSize:
    case ValueTag::kSlice:
    case ValueTag::kEllipsis:
    case ValueTag::kTensor:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
      break;
  }
  return "a value";
}

}  // namespace torchtrace
