// Values: an argument as bytes, the writer of these bytes, and the tree that they are parsed into.

#ifndef TORCHTRACE_SERIALIZE_MODEL_VALUE_H_
#define TORCHTRACE_SERIALIZE_MODEL_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "serialize/base/bytes.h"

namespace torchtrace {

// A described argument is a tagged byte string: small, canonical (equal
// descriptions are equal bytes) and self-delimiting. ValueWriter makes them,
// ReadValue turns them into a tree. docs/FORMAT.md has the grammar. Tags are
// part of the log format: never renumber them.
enum class ValueTag : uint8_t {
  kNone = 0,
  kFalse = 1,
  kTrue = 2,
  kInt = 3,      // zigzag varint
  kBigInt = 4,   // string: the decimal digits of an int beyond 64 bits, or "-10000000 bits"
  kFloat = 5,    // 8 bytes
  kComplex = 6,  // 16 bytes: real, imaginary
  kString = 7,   // varint length of the whole text, string: UTF-8, maybe cut
  kBytes = 8,    // varint length of the whole, string: bytes, maybe cut
  // Containers: varint items of the whole, varint items that follow, the items
  // (fewer when it was cut). For kDict each item is a key and a value.
  kList = 9,
  kTuple = 10,
  kSet = 11,
  kFrozenSet = 12,
  kDict = 13,
  kSize = 14,   // torch.Size
  kSlice = 15,  // three values: start, stop, step
  kEllipsis = 16,
  kTensor = 17,        // see ValueWriter::BeginTensor
  kUndefined = 18,     // a C++ tensor that is not defined
  kDtype = 19,         // string "float32"; shown as torch.float32
  kDevice = 20,        // string "cuda:0"
  kLayout = 21,        // string "strided"
  kMemoryFormat = 22,  // string "channels_last"
  kGenerator = 23,     // string: its device
  kStorage = 24,       // string device, varint bytes
  kFunction = 25,      // string: dotted name
  kType = 26,          // string: dotted name
  kNdarray = 27,       // string dtype, varint rank, Dims (see below)
  kNumpyScalar = 28,   // string dtype
  kObject = 29,        // string: the type's dotted name
  kSymbol = 30,        // string: "SymInt", "SymFloat" or "SymBool"; the value is unknown
  kRange = 31,         // three values: start, stop, step
  kDeep = 32,          // a container nested too deeply to describe
};
inline constexpr uint8_t kLastValueTag = 32;

// A tensor is: varint bits, string dtype, string device, then the parts that the
// bits announce, in this order.
enum TensorBit : uint64_t {
  kTensorHasStride = 1,     // as many dimensions as the shape; else contiguous
  kTensorHasLayout = 2,     // string; else "strided"
  kTensorShapeUnknown = 4,  // no shape follows (nested tensors, failing accessors)
};
// The shape: varint rank, then per dimension a Dim. Strides: the same.
// Dim: varint 0 for a symbolic size, else zigzag(size) + 1.

// Appends descriptions to a std::string or a ByteBuffer that it does not own. No call fails. Nothing
// is checked: the caller must write as many items as it announced.
template <typename Out>
class BasicValueWriter {
 public:
  explicit BasicValueWriter(Out* out) : out_(out) {}

  void None() { Tag(ValueTag::kNone); }
  void Bool(bool value) { Tag(value ? ValueTag::kTrue : ValueTag::kFalse); }
  void Int(int64_t value) {
    Tag(ValueTag::kInt);
    AppendVarint(ZigZag(value), out_);
  }
  void Float(double value) {
    Tag(ValueTag::kFloat);
    AppendDouble(value, out_);
  }
  void Complex(double real, double imaginary) {
    Tag(ValueTag::kComplex);
    AppendDouble(real, out_);
    AppendDouble(imaginary, out_);
  }
  // `whole_bytes` is the length before cutting.
  void String(std::string_view text, uint64_t whole_bytes) { Cut(ValueTag::kString, text, whole_bytes); }
  void Bytes(std::string_view bytes, uint64_t whole_bytes) { Cut(ValueTag::kBytes, bytes, whole_bytes); }
  // `written` items (pairs for kDict) must follow.
  void Container(ValueTag tag, uint64_t whole, uint64_t written) {
    Tag(tag);
    AppendVarint(whole, out_);
    AppendVarint(written, out_);
  }
  void BeginSlice() { Tag(ValueTag::kSlice); }  // three values follow
  void BeginRange() { Tag(ValueTag::kRange); }  // three values follow
  void Ellipsis() { Tag(ValueTag::kEllipsis); }
  void Undefined() { Tag(ValueTag::kUndefined); }
  void Deep() { Tag(ValueTag::kDeep); }
  // For the tags whose body is one string: kBigInt, kDtype, kDevice, kLayout,
  // kMemoryFormat, kGenerator, kFunction, kType, kNumpyScalar, kObject, kSymbol.
  void Named(ValueTag tag, std::string_view name) {
    Tag(tag);
    AppendString(name, out_);
  }
  void Storage(std::string_view device, uint64_t bytes) {
    Named(ValueTag::kStorage, device);
    AppendVarint(bytes, out_);
  }
  // `rank` Dim() calls must follow.
  void BeginNdarray(std::string_view dtype, uint64_t rank) {
    Named(ValueTag::kNdarray, dtype);
    AppendVarint(rank, out_);
  }
  // Then, unless kTensorShapeUnknown: Rank and Dims of the shape, with
  // kTensorHasStride Rank and Dims of the strides; with kTensorHasLayout Layout.
  void BeginTensor(uint64_t bits, std::string_view dtype, std::string_view device) {
    Tag(ValueTag::kTensor);
    AppendVarint(bits, out_);
    AppendString(dtype, out_);
    AppendString(device, out_);
  }
  void Rank(uint64_t rank) { AppendVarint(rank, out_); }
  void Dim(int64_t size) { AppendVarint(ZigZag(size) + 1, out_); }
  void SymbolicDim() { AppendVarint(0, out_); }
  // Rank and as many Dims.
  void Dims(const int64_t* sizes, size_t rank) {
    Rank(rank);
    for (size_t i = 0; i < rank; ++i) Dim(sizes[i]);
  }
  void Layout(std::string_view layout) { AppendString(layout, out_); }

 private:
  void Tag(ValueTag tag) { out_->push_back(static_cast<char>(tag)); }
  void Cut(ValueTag tag, std::string_view text, uint64_t whole_bytes) {
    Tag(tag);
    AppendVarint(whole_bytes, out_);
    AppendString(text, out_);
  }

  Out* out_;
};

using ValueWriter = BasicValueWriter<std::string>;

// Deeper nesting counts as damage: no writer of ours nests so deeply.
inline constexpr int kMaxValueDepth = 64;

// One size of a shape or stride; empty: symbolic.
using Dim = std::optional<int64_t>;

// A parsed argument: what ReadValue makes of the bytes that ValueWriter wrote. Plain data
// that owns its contents; safe to read from any thread. For formatting and rewriting, once
// per config; never used while a call is recorded.
struct Value {
  ValueTag tag = ValueTag::kNone;

  int64_t integer = 0;   // kInt
  double real = 0;       // kFloat, kComplex
  double imaginary = 0;  // kComplex
  // kString, kBytes, kBigInt, and the name of every tag whose body is a string;
  // kTensor, kNdarray: the dtype; kStorage: the device.
  std::string text;
  // kString, kBytes: length before cutting; containers: items (kDict: pairs)
  // before cutting; kStorage: bytes.
  uint64_t whole = 0;
  // Containers: the items; kDict: key, value, key, value, ...; kSlice and
  // kRange: start, stop, step.
  std::vector<Value> items;

  uint64_t tensor_bits = 0;  // kTensor: TensorBit
  std::string device;        // kTensor
  std::string layout;        // kTensor with kTensorHasLayout
  std::vector<Dim> shape;    // kTensor, kNdarray
  std::vector<Dim> strides;  // kTensor with kTensorHasStride

  bool operator==(const Value& other) const;
};

// True for the tags that hold a counted list of items.
bool IsContainer(ValueTag tag);

// Reads one value. On an error, which names the byte offset and what was
// expected there, `value` and the reader's position are unspecified.
absl::Status ReadValue(ByteReader* reader, Value* value);

// Skips `values` values. True if one in them was cut when it was recorded: a text, an int, a container, or one nested
// too deep. False if a malformed one comes first. In both cases the position is unspecified.
bool FindsCutValue(ByteReader* reader, uint64_t values);

// The error of a reader that isn't at what it should be: "byte 3: expected a rank".
absl::Status Expected(const ByteReader& reader, const std::string& what);

// The inverse of ReadValue, byte for byte; appends to `out`.
void EncodeValue(const Value& value, std::string* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_VALUE_H_
