// The numbers of a tensor in a trace: as recorded by `run --numbers`, or computed from contents that `--values`
// recorded.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_TENSOR_NUMBERS_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_TENSOR_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"

namespace torchtrace {

// The name of an operator or function without its module, namespace and overload: `add_` of aten::add_.Tensor and of
// torch.Tensor.add_.
std::string_view LastName(std::string_view api);

// The tensors in the arguments, or in a result's values: the index is TensorNote::position. The pointers are valid as
// long as the values.
std::vector<const Value*> TensorsOf(const Config& config);
std::vector<const Value*> TensorsOf(const std::vector<Value>& values);

// Of the tensor that `tensor` describes; null: only recorded numbers are known. None: neither numbers nor contents were
// recorded, or the contents aren't all elements of a dtype whose numbers can be computed. Numbers of equal contents are
// bit-equal, recorded or computed.
std::optional<TensorNote::Numbers> NumbersOfNote(const TensorNote& note, const Value* tensor);

inline uint64_t InfinitiesOf(const TensorNote::Numbers& numbers) {
  return numbers.positive_infinities + numbers.negative_infinities;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_TENSOR_NUMBERS_H_
