// Value is one described argument taken apart: what ReadValue makes of the
// bytes that ValueWriter wrote. Plain data that owns everything it shows; safe
// to read from any thread. It is made for formatting and rewriting a config,
// once per config, and is never on the way of a call.

#ifndef TORCHTRACE_SERIALIZE_MODEL_VALUE_TREE_H_
#define TORCHTRACE_SERIALIZE_MODEL_VALUE_TREE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialize/base/varint.h"
#include "serialize/model/value.h"

namespace torchtrace {

// Deeper nesting is taken for damage: no writer of ours goes so deep.
inline constexpr int kMaxValueDepth = 64;

// One size of a shape or stride; empty: symbolic.
using Dim = std::optional<int64_t>;

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

// The inverse of ReadValue, byte for byte; appends to `out`.
void EncodeValue(const Value& value, std::string* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_VALUE_TREE_H_
