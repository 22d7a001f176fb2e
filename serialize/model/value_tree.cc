#include <bit>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "serialize/model/value.h"

namespace torchtrace {

absl::Status Expected(const ByteReader& reader, const std::string& what) {
  return absl::DataLossError(absl::StrCat("byte ", reader.offset(), ": expected ", what));
}

namespace {

absl::Status ReadText(ByteReader* reader, const std::string& what, std::string* text) {
  std::string_view bytes;
  if (!reader->String(&bytes)) return Expected(*reader, what);
  text->assign(bytes);
  return absl::OkStatus();
}

absl::Status ReadDims(ByteReader* reader, std::vector<Dim>* dims) {
  uint64_t rank;
  // Every dimension takes at least a byte: a larger rank is damage; don't allocate memory for it.
  if (!reader->Varint(&rank) || rank > reader->remaining()) return Expected(*reader, "a rank");
  dims->reserve(rank);
  for (uint64_t i = 0; i < rank; ++i) {
    uint64_t dim;
    if (!reader->Varint(&dim)) return Expected(*reader, "a dimension");
    dims->push_back(dim == 0 ? Dim() : Dim(UnZigZag(dim - 1)));
  }
  return absl::OkStatus();
}

void EncodeDims(const std::vector<Dim>& dims, ValueWriter* writer) {
  writer->Rank(dims.size());
  for (const Dim& dim : dims) {
    if (dim.has_value()) {
      writer->Dim(*dim);
    } else {
      writer->SymbolicDim();
    }
  }
}

absl::Status ReadTensor(ByteReader* reader, Value* value) {
  constexpr uint64_t kKnownBits = kTensorHasStride | kTensorHasLayout | kTensorShapeUnknown;
  if (!reader->Varint(&value->tensor_bits) || (value->tensor_bits & ~kKnownBits) != 0) {
    return Expected(*reader, "a tensor's bits");
  }
  if (absl::Status s = ReadText(reader, "a tensor's dtype", &value->text); !s.ok()) return s;
  if (absl::Status s = ReadText(reader, "a tensor's device", &value->device); !s.ok()) return s;
  if ((value->tensor_bits & kTensorShapeUnknown) == 0) {
    if (absl::Status s = ReadDims(reader, &value->shape); !s.ok()) return s;
    if ((value->tensor_bits & kTensorHasStride) != 0) {
      if (absl::Status s = ReadDims(reader, &value->strides); !s.ok()) return s;
    }
  }
  if ((value->tensor_bits & kTensorHasLayout) != 0) return ReadText(reader, "a tensor's layout", &value->layout);
  return absl::OkStatus();
}

absl::Status ReadAt(ByteReader* reader, int depth, Value* value);

absl::Status ReadItems(ByteReader* reader, uint64_t count, int depth, Value* value) {
  if (depth == kMaxValueDepth) return Expected(*reader, absl::StrCat("at most ", kMaxValueDepth, " levels of nesting"));
  value->items.resize(count);
  for (Value& item : value->items) {
    if (absl::Status s = ReadAt(reader, depth + 1, &item); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ReadAt(ByteReader* reader, int depth, Value* value) {
  *value = Value();
  uint8_t tag;
  if (!reader->Byte(&tag)) return Expected(*reader, "a value");
  if (tag > kLastValueTag) {
    return absl::DataLossError(absl::StrCat("byte ", reader->offset() - 1, ": unknown value tag ", tag));
  }
  value->tag = static_cast<ValueTag>(tag);
  switch (value->tag) {
    case ValueTag::kNone:
    case ValueTag::kFalse:
    case ValueTag::kTrue:
    case ValueTag::kEllipsis:
    case ValueTag::kUndefined:
    case ValueTag::kDeep:
      return absl::OkStatus();
    case ValueTag::kInt: {
      uint64_t bits;
      if (!reader->Varint(&bits)) return Expected(*reader, "an integer");
      value->integer = UnZigZag(bits);
      return absl::OkStatus();
    }
    case ValueTag::kFloat:
      return reader->Double(&value->real) ? absl::OkStatus() : Expected(*reader, "a float");
    case ValueTag::kComplex:
      return reader->Double(&value->real) && reader->Double(&value->imaginary) ? absl::OkStatus()
                                                                               : Expected(*reader, "a complex number");
    case ValueTag::kString:
    case ValueTag::kBytes:
      if (!reader->Varint(&value->whole)) return Expected(*reader, "a text's length");
      return ReadText(reader, "a text", &value->text);
    case ValueTag::kList:
    case ValueTag::kTuple:
    case ValueTag::kSet:
    case ValueTag::kFrozenSet:
    case ValueTag::kSize:
    case ValueTag::kDict: {
      const uint64_t per_item = value->tag == ValueTag::kDict ? 2 : 1;
      uint64_t written;
      if (!reader->Varint(&value->whole) || !reader->Varint(&written) || written > reader->remaining() / per_item) {
        return Expected(*reader, "a container's item counts");
      }
      return ReadItems(reader, written * per_item, depth, value);
    }
    case ValueTag::kSlice:
    case ValueTag::kRange:
      return ReadItems(reader, 3, depth, value);
    case ValueTag::kTensor:
      return ReadTensor(reader, value);
    case ValueTag::kStorage: {
      if (absl::Status s = ReadText(reader, "a storage's device", &value->text); !s.ok()) return s;
      return reader->Varint(&value->whole) ? absl::OkStatus() : Expected(*reader, "a storage's size");
    }
    case ValueTag::kNdarray: {
      if (absl::Status s = ReadText(reader, "an array's dtype", &value->text); !s.ok()) return s;
      return ReadDims(reader, &value->shape);
    }
    case ValueTag::kBigInt:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
    case ValueTag::kGenerator:
    case ValueTag::kFunction:
    case ValueTag::kType:
    case ValueTag::kNumpyScalar:
    case ValueTag::kObject:
    case ValueTag::kSymbol:
      return ReadText(reader, "a name", &value->text);
  }
  return absl::InternalError("unreachable: the tag was checked");
}

bool SkipDims(ByteReader* reader) {
  uint64_t rank, dim;
  if (!reader->Varint(&rank)) return false;
  while (rank > 0 && reader->Varint(&dim)) --rank;
  return rank == 0;
}

bool SkipTensor(ByteReader* reader) {
  uint64_t bits;
  std::string_view text;
  if (!reader->Varint(&bits) || !reader->String(&text) || !reader->String(&text)) return false;
  if ((bits & kTensorShapeUnknown) == 0) {
    if (!SkipDims(reader) || ((bits & kTensorHasStride) != 0 && !SkipDims(reader))) return false;
  }
  return (bits & kTensorHasLayout) == 0 || reader->String(&text);
}

}  // namespace

bool Value::operator==(const Value& other) const {
  // By bits: nan equals itself, and 0.0 is not -0.0.
  return tag == other.tag && integer == other.integer &&
         std::bit_cast<uint64_t>(real) == std::bit_cast<uint64_t>(other.real) &&
         std::bit_cast<uint64_t>(imaginary) == std::bit_cast<uint64_t>(other.imaginary) && text == other.text &&
         whole == other.whole && items == other.items && tensor_bits == other.tensor_bits && device == other.device &&
         layout == other.layout && shape == other.shape && strides == other.strides;
}

bool IsContainer(ValueTag tag) {
  switch (tag) {
    case ValueTag::kList:
    case ValueTag::kTuple:
    case ValueTag::kSet:
    case ValueTag::kFrozenSet:
    case ValueTag::kDict:
    case ValueTag::kSize:
      return true;
    default:
      return false;
  }
}

absl::Status ReadValue(ByteReader* reader, Value* value) { return ReadAt(reader, 0, value); }

bool FindsCutValue(ByteReader* reader, uint64_t values) {
  uint8_t byte;
  uint64_t number;
  std::string_view text;
  // Those in containers follow their container.
  for (; values > 0; --values) {
    if (!reader->Byte(&byte)) return false;
    bool whole = true;
    switch (const auto tag = static_cast<ValueTag>(byte)) {
      case ValueTag::kNone:
      case ValueTag::kFalse:
      case ValueTag::kTrue:
      case ValueTag::kEllipsis:
      case ValueTag::kUndefined:
        break;
      case ValueTag::kDeep:
        return true;
      case ValueTag::kInt:
        whole = reader->Varint(&number);
        break;
      case ValueTag::kFloat:
        whole = reader->Bytes(sizeof(double), &text);
        break;
      case ValueTag::kComplex:
        whole = reader->Bytes(2 * sizeof(double), &text);
        break;
      case ValueTag::kString:
      case ValueTag::kBytes:
        whole = reader->Varint(&number) && reader->String(&text);
        if (whole && number > text.size()) return true;
        break;
      case ValueTag::kBigInt:
        whole = reader->String(&text);
        if (whole && text.ends_with(" bits")) return true;
        break;
      case ValueTag::kSlice:
      case ValueTag::kRange:
        values += 3;
        break;
      case ValueTag::kTensor:
        whole = SkipTensor(reader);
        break;
      case ValueTag::kStorage:
        whole = reader->String(&text) && reader->Varint(&number);
        break;
      case ValueTag::kNdarray:
        whole = reader->String(&text) && SkipDims(reader);
        break;
      default:
        if (IsContainer(tag)) {
          uint64_t written;
          whole = reader->Varint(&number) && reader->Varint(&written) && written <= reader->remaining();
          if (whole && number > written) return true;
          values += !whole ? 0 : tag == ValueTag::kDict ? 2 * written : written;
        } else {
          whole = reader->String(&text);
        }
    }
    if (!whole) return false;
  }
  return false;
}

void EncodeValue(const Value& value, std::string* out) {
  ValueWriter writer(out);
  switch (value.tag) {
    case ValueTag::kNone:
      return writer.None();
    case ValueTag::kFalse:
      return writer.Bool(false);
    case ValueTag::kTrue:
      return writer.Bool(true);
    case ValueTag::kInt:
      return writer.Int(value.integer);
    case ValueTag::kFloat:
      return writer.Float(value.real);
    case ValueTag::kComplex:
      return writer.Complex(value.real, value.imaginary);
    case ValueTag::kString:
      return writer.String(value.text, value.whole);
    case ValueTag::kBytes:
      return writer.Bytes(value.text, value.whole);
    case ValueTag::kList:
    case ValueTag::kTuple:
    case ValueTag::kSet:
    case ValueTag::kFrozenSet:
    case ValueTag::kSize:
    case ValueTag::kDict:
      writer.Container(value.tag, value.whole, value.items.size() / (value.tag == ValueTag::kDict ? 2 : 1));
      break;
    case ValueTag::kSlice:
      writer.BeginSlice();
      break;
    case ValueTag::kRange:
      writer.BeginRange();
      break;
    case ValueTag::kEllipsis:
      return writer.Ellipsis();
    case ValueTag::kUndefined:
      return writer.Undefined();
    case ValueTag::kDeep:
      return writer.Deep();
    case ValueTag::kTensor:
      writer.BeginTensor(value.tensor_bits, value.text, value.device);
      if ((value.tensor_bits & kTensorShapeUnknown) == 0) {
        EncodeDims(value.shape, &writer);
        if ((value.tensor_bits & kTensorHasStride) != 0) EncodeDims(value.strides, &writer);
      }
      if ((value.tensor_bits & kTensorHasLayout) != 0) writer.Layout(value.layout);
      return;
    case ValueTag::kStorage:
      return writer.Storage(value.text, value.whole);
    case ValueTag::kNdarray:
      writer.Named(ValueTag::kNdarray, value.text);
      return EncodeDims(value.shape, &writer);
    case ValueTag::kBigInt:
    case ValueTag::kDtype:
    case ValueTag::kDevice:
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
    case ValueTag::kGenerator:
    case ValueTag::kFunction:
    case ValueTag::kType:
    case ValueTag::kNumpyScalar:
    case ValueTag::kObject:
    case ValueTag::kSymbol:
      return writer.Named(value.tag, value.text);
  }
  for (const Value& item : value.items) EncodeValue(item, out);
}

}  // namespace torchtrace
