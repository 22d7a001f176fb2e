#include "serialize/export/value_kind.h"

namespace torchtrace {

std::string_view ValueKind(ValueTag tag) {
  switch (tag) {
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
      return "a symbolic number";
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
