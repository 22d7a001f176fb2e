#include "dialects/torch/numbers/row_major.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include "dialects/torch/numbers/sums.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr size_t kCacheLine = 64;

bool Contiguous(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != stride) return false;
    stride *= sizes[i];
  }
  return true;
}

void TakeContiguous(const std::byte* first, uint64_t count, size_t element_size, TakeBlock take) {
  const uint64_t per_block = kBlockBytes / element_size;
  for (uint64_t taken = 0; taken < count; taken += per_block) {
    take(first + taken * element_size, std::min(count - taken, per_block));
  }
}

// Repeated over 16 bytes.
using SignBits = std::array<uint64_t, 2>;

SignBits SignBitsOf(const StridedElements& elements) {
  SignBits bits = {};
  for (size_t byte = 0; byte < sizeof bits; byte += elements.part_size) {
    const bool flips = byte % elements.element_size == 0 ? elements.flipped.real : elements.flipped.imaginary;
    const size_t sign = 8 * (byte + elements.part_size) - 1;
    if (flips) bits[sign / 64] |= uint64_t{1} << sign % 64;
  }
  return bits;
}

// Dimensions of size 1 are left out, but for one if there is no other, and neighbours that can be walked as one are
// one. Of a tensor whose number of elements fits into int64_t, at most 62 are left.
struct Walk {
  static constexpr int kMost = 64;
  int count = 0;
  int64_t sizes[kMost] = {};
  int64_t strides[kMost] = {};  // in bytes

  Walk(std::span<const int64_t> tensor_sizes, std::span<const int64_t> tensor_strides, int64_t element_size) {
    for (size_t i = 0; i < tensor_sizes.size(); ++i) {
      if (tensor_sizes[i] == 1) continue;  // with any stride
      const int64_t stride = tensor_strides[i] * element_size;
      const int last = count - 1;
      if (last >= 0 && strides[last] == stride * tensor_sizes[i]) {
        sizes[last] *= tensor_sizes[i];
        strides[last] = stride;
      } else if (count < kMost) {
        sizes[count] = tensor_sizes[i];
        strides[count] = stride;
        ++count;
      }
    }
    if (count == 0) sizes[count++] = 1;
  }
};

// Elements on their way to who takes them.
template <size_t element_size>
class BlockStream {
 public:
  BlockStream(const StridedElements& elements, TakeBlock take)
      : take_(take), flips_(elements.flipped.any()), sign_bits_(SignBitsOf(elements)) {}

  // `stride` in bytes.
  void Append(const std::byte* from, int64_t stride, size_t elements) {
    while (elements != 0) {
      const size_t count = std::min(elements, kPerBlock - filled_);
      if (stride == kElementSize && count == kPerBlock && !flips_) {
        take_(from, count);
      } else {
        Copy(from, stride, count);
        filled_ += count;
        if (filled_ == kPerBlock) Flush();
      }
      from += static_cast<int64_t>(count) * stride;
      elements -= count;
    }
  }
  void Flush() {
    if (flips_) FlipSigns();
    if (filled_ != 0) take_(block_, filled_);
    filled_ = 0;
  }

 private:
  static constexpr int64_t kElementSize = element_size;
  static constexpr size_t kPerBlock = kBlockBytes / element_size;

  void FlipSigns() {
    for (size_t i = 0; i < filled_ * element_size; i += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, block_ + i, sizeof word);
      word ^= sign_bits_[i / sizeof word % sign_bits_.size()];
      std::memcpy(block_ + i, &word, sizeof word);
    }
  }
  void Copy(const std::byte* from, int64_t stride, size_t count) {
    // A call of memcpy costs more than a few elements.
    constexpr size_t kFew = 8;
    std::byte* to = block_ + filled_ * element_size;
    if (stride == kElementSize && count > kFew) {
      std::memcpy(to, from, count * element_size);
      return;
    }
    for (size_t i = 0; i < count; ++i, from += stride, to += element_size) std::memcpy(to, from, element_size);
  }

  const TakeBlock take_;
  const bool flips_;
  const SignBits sign_bits_;
  size_t filled_ = 0;
  alignas(kCacheLine) std::byte block_[kBlockBytes];
};

// A few rows of a large transposed matrix. Their elements are in the same cache lines, so they are copied together.
// They are too many bytes for a stack, so threads share the memory; who comes while it is taken does without.
class Panel {
 public:
  Panel() : mine_(!taken.test_and_set(std::memory_order_acquire)) {}
  ~Panel() {
    if (mine_) taken.clear(std::memory_order_release);
  }
  Panel(const Panel&) = delete;
  Panel& operator=(const Panel&) = delete;

  // The rows that fit, of at most a cache line. Fewer than two are of no use.
  size_t RowsOf(size_t columns, size_t element_size) {
    if (!mine_ || columns > kBytes / element_size) return 0;
    // Each begins in a line of its own, an odd number of lines after the one before: lines a power of two apart would
    // share a few places of the cache.
    row_bytes_ = ((columns * element_size / kCacheLine + 1) | 1) * kCacheLine;
    return std::min(kCacheLine / element_size, kBytes / row_bytes_);
  }
  template <size_t element_size>
  void Fill(const std::byte* column, int64_t column_stride, size_t rows, size_t columns) {
    for (size_t j = 0; j < columns; ++j, column += column_stride) {
      std::byte* to = bytes + j * element_size;
      for (size_t i = 0; i < rows; ++i, to += row_bytes_) std::memcpy(to, column + i * element_size, element_size);
    }
  }
  const std::byte* Row(size_t row) const { return bytes + row * row_bytes_; }

 private:
  static constexpr size_t kBytes = 1 << 20;
  static inline std::atomic_flag taken;
  alignas(kCacheLine) static inline std::byte bytes[kBytes];

  const bool mine_;
  size_t row_bytes_ = 0;
};

// Rows whose elements at the same place are neighbours.
template <size_t element_size>
void AppendTransposed(const std::byte* from, size_t rows, size_t columns, int64_t column_stride,
                      BlockStream<element_size>* stream) {
  Panel panel;
  const size_t most = panel.RowsOf(columns, element_size);
  while (rows != 0) {
    const size_t count = std::max<size_t>(std::min(most, rows), 1);
    if (count == 1) {
      stream->Append(from, column_stride, columns);
    } else {
      panel.Fill<element_size>(from, column_stride, count, columns);
      for (size_t i = 0; i < count; ++i) stream->Append(panel.Row(i), element_size, columns);
    }
    rows -= count;
    from += count * element_size;
  }
}

template <size_t element_size>
void TakeStrided(const StridedElements& elements, TakeBlock take) {
  const Walk walk(elements.sizes, elements.strides, element_size);
  BlockStream<element_size> stream(elements, take);
  const std::byte* data = elements.first;
  int inner = walk.count - 1;
  const int64_t columns = walk.sizes[inner];
  const int64_t column_stride = walk.strides[inner];
  // So few columns surely stay in the nearest cache until the next row is read.
  constexpr int64_t kFewColumns = 64;
  const bool transposed = inner > 0 && columns >= kFewColumns && walk.strides[inner - 1] == element_size &&
                          std::abs(column_stride) >= static_cast<int64_t>(kCacheLine);
  if (transposed) --inner;
  int64_t index[Walk::kMost] = {};
  for (;;) {
    if (transposed) {
      AppendTransposed(data, walk.sizes[inner], columns, column_stride, &stream);
    } else {
      stream.Append(data, column_stride, columns);
    }
    int outer = inner - 1;
    for (; outer >= 0 && ++index[outer] == walk.sizes[outer]; --outer) {
      index[outer] = 0;
      data -= (walk.sizes[outer] - 1) * walk.strides[outer];
    }
    if (outer < 0) break;
    data += walk.strides[outer];
  }
  stream.Flush();
}

// Not in line, as most tensors are contiguous.
__attribute__((noinline)) void TakeStridedOfAnySize(const StridedElements& elements, TakeBlock take) {
  switch (elements.element_size) {
    case 1:
      return TakeStrided<1>(elements, take);
    case 2:
      return TakeStrided<2>(elements, take);
    case 4:
      return TakeStrided<4>(elements, take);
    case 8:
      return TakeStrided<8>(elements, take);
    case 16:
      return TakeStrided<16>(elements, take);
  }
}

}  // namespace

uint64_t StridedElements::Count() const {
  uint64_t count = 1;
  for (const int64_t size : sizes) count *= size > 0 ? static_cast<uint64_t>(size) : 0;
  return count;
}

void ForEachBlock(const StridedElements& elements, TakeBlock take) {
  const uint64_t count = elements.Count();
  if (!elements.flipped.any() && Contiguous(elements.sizes, elements.strides)) {
    TakeContiguous(elements.first, count, elements.element_size, take);
  } else if (count != 0) {
    TakeStridedOfAnySize(elements, take);
  }
}

}  // namespace torchtrace::torch_dialect
