// The sums of a block, one element at a time.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dialects/torch/numbers/element_values.h"
#include "dialects/torch/numbers/fingerprint.h"
#include "dialects/torch/numbers/sums.h"

namespace torchtrace::torch_dialect {
namespace {

uint64_t MixWords(const std::byte* data, size_t bytes, uint64_t index) {
  uint64_t sum = 0;
  for (; bytes >= sizeof(uint64_t); data += sizeof(uint64_t), bytes -= sizeof(uint64_t)) {
    sum += MixWord(LoadElement<uint64_t>(data), index++);
  }
  if (bytes != 0) {
    uint64_t word = 0;
    std::memcpy(&word, data, bytes);
    sum += MixWord(word, index);
  }
  return sum;
}

template <ElementType type>
void ScalarBlock(const std::byte* data, size_t elements, uint64_t first_word, Sums* sums) {
  constexpr size_t kLanes = SumLanes(type);
  double lanes[kLanes] = {};
  double square_lanes[kLanes] = {};
  double least = sums->least;
  double most = sums->most;
  for (size_t i = 0; i < elements; ++i) {
    const ElementValue element = ValueAt<type>(data + i * ElementSize(type));
    if (std::isnan(element.value)) {
      ++sums->nans;
    } else if (std::isinf(element.value)) {
      ++(element.value > 0 ? sums->positive_infinities : sums->negative_infinities);
    } else {
      sums->zeros += element.value == 0;
      least = std::min(least, element.value);
      most = std::max(most, element.value);
      lanes[i % kLanes] += element.value;
      square_lanes[i % kLanes] += element.square;
    }
  }
  sums->least = least;
  sums->most = most;
  sums->sum.Add(AddLanes(lanes, kLanes));
  sums->squares.Add(AddLanes(square_lanes, kLanes));
  sums->words += MixWords(data, elements * ElementSize(type), first_word);
}

}  // namespace

BlockKernel ScalarKernel(ElementType type) {
  using enum ElementType;
  switch (type) {
    case kUint8:
      return ScalarBlock<kUint8>;
    case kInt8:
      return ScalarBlock<kInt8>;
    case kInt16:
      return ScalarBlock<kInt16>;
    case kInt32:
      return ScalarBlock<kInt32>;
    case kInt64:
      return ScalarBlock<kInt64>;
    case kFloat16:
      return ScalarBlock<kFloat16>;
    case kFloat32:
      return ScalarBlock<kFloat32>;
    case kFloat64:
      return ScalarBlock<kFloat64>;
    case kComplex32:
      return ScalarBlock<kComplex32>;
    case kComplex64:
      return ScalarBlock<kComplex64>;
    case kComplex128:
      return ScalarBlock<kComplex128>;
    case kBool:
      return ScalarBlock<kBool>;
    case kBfloat16:
      return ScalarBlock<kBfloat16>;
    case kFloat8E5m2:
      return ScalarBlock<kFloat8E5m2>;
    case kFloat8E4m3fn:
      return ScalarBlock<kFloat8E4m3fn>;
    case kFloat8E5m2fnuz:
      return ScalarBlock<kFloat8E5m2fnuz>;
    case kFloat8E4m3fnuz:
      return ScalarBlock<kFloat8E4m3fnuz>;
    case kUint16:
      return ScalarBlock<kUint16>;
    case kUint32:
      return ScalarBlock<kUint32>;
    case kUint64:
      return ScalarBlock<kUint64>;
    case kFloat8E8m0fnu:
      return ScalarBlock<kFloat8E8m0fnu>;
  }
  return nullptr;
}

}  // namespace torchtrace::torch_dialect
