#include "serialize/numbers/tensor_numbers.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "dialects/torch/numbers/noted_numbers.h"
#include "dialects/torch/numbers/numbers.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

void AddTensors(const Value& value, std::vector<const Value*>* tensors) {
  if (value.tag == ValueTag::kTensor) tensors->push_back(&value);
  for (const Value& item : value.items) AddTensors(item, tensors);
}

std::optional<torch_dialect::ElementType> ElementTypeOfName(std::string_view name) {
  constexpr int64_t kNumbers = 64;
  for (int64_t number = 0; number < kNumbers; ++number) {
    if (DtypeOfNumber(number) == name) return torch_dialect::ElementTypeOfNumber(number);
  }
  return std::nullopt;
}

// The sizes, if `bytes` are exactly the elements.
std::optional<std::vector<int64_t>> SizesIf(const Value& tensor, size_t element_bytes, size_t bytes) {
  if ((tensor.tensor_bits & kTensorShapeUnknown) != 0) return std::nullopt;
  std::vector<int64_t> sizes;
  size_t whole = element_bytes;
  for (const Dim& dim : tensor.shape) {
    if (!dim.has_value() || *dim < 0) return std::nullopt;
    if (__builtin_mul_overflow(whole, static_cast<size_t>(*dim), &whole)) return std::nullopt;
    sizes.push_back(*dim);
  }
  if (whole != bytes) return std::nullopt;
  return sizes;
}

}  // namespace

std::string_view LastName(std::string_view api) {
  if (const size_t colons = api.find("::"); colons != std::string_view::npos) {
    api.remove_prefix(colons + 2);
    return api.substr(0, api.find('.'));
  }
  return api.substr(api.rfind('.') + 1);
}

std::vector<const Value*> TensorsOf(const Config& config) {
  std::vector<const Value*> tensors;
  for (const Value& value : config.args) AddTensors(value, &tensors);
  for (const auto& [name, value] : config.kwargs) AddTensors(value, &tensors);
  return tensors;
}

std::vector<const Value*> TensorsOf(const std::vector<Value>& values) {
  std::vector<const Value*> tensors;
  for (const Value& value : values) AddTensors(value, &tensors);
  return tensors;
}

std::optional<TensorNote::Numbers> NumbersOfNote(const TensorNote& note, const Value* tensor) {
  if (note.numbers.has_value()) return note.numbers;
  if (!note.contents.has_value() || tensor == nullptr || tensor->tag != ValueTag::kTensor) return std::nullopt;
  const std::optional<torch_dialect::ElementType> type = ElementTypeOfName(tensor->text);
  if (!type.has_value()) return std::nullopt;
  const std::optional<std::vector<int64_t>> sizes =
      SizesIf(*tensor, torch_dialect::ElementSize(*type), note.contents->size());
  if (!sizes.has_value()) return std::nullopt;
  std::vector<int64_t> strides(sizes->size());
  uint64_t stride = 1;  // wraps around only if there are no elements
  for (size_t i = sizes->size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>((*sizes)[i]);
  }
  return torch_dialect::NotedNumbers(torch_dialect::NumbersOf(*type, note.contents->data(), *sizes, strides));
}

}  // namespace torchtrace
