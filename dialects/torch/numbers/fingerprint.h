// The fingerprint of a tensor: 64 bits, equal whenever dtype, shape and elements are bit-equal, otherwise different but
// for chance. It is the same on every device, so all of its definition is here.
//
// 1. The elements in row-major order, as their bytes in memory (little endian), one directly after the other, are cut
//    into words of 8 bytes. Zero bytes fill the last word up. So a word has 8 elements of one byte, or half a
//    complex128.
// 2. S is the sum modulo 2^64 of MixWord(word, j) over all words, j = 0, 1, ... A sum can be computed in any order and
//    in any parts.
// 3. The fingerprint is MixWord(S + ShapeSeed(dtype, sizes), 0).
//
// All arithmetic is modulo 2^64. Tensors of one dtype and shape that differ in one word alone never have the same
// fingerprint. It isn't meant to withstand somebody who looks for two tensors with the same one.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_FINGERPRINT_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_FINGERPRINT_H_

#include <cstdint>
#include <span>

#include "dialects/torch/numbers/element_type.h"

namespace torchtrace::torch_dialect {

// The golden ratio's bits, so that multiples of it are far apart. Odd, as the other factor is, so that multiplication
// is a permutation.
inline constexpr uint64_t kIndexFactor = 0x9e3779b97f4a7c15;
inline constexpr uint64_t kScrambleFactor = 0xd6e8feb86659fd93;

constexpr uint64_t XorHigh(uint64_t x) { return x ^ (x >> 32); }

// What an odd factor is undone by.
constexpr uint64_t Inverse(uint64_t factor) {
  uint64_t inverse = factor;  // right in 3 bits; each step doubles them
  for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - factor * inverse;
  return inverse;
}

// For each index a permutation of words. To multiply by the index's key, not by a constant, spreads what one changed
// bit does over all 64 bits.
constexpr uint64_t MixWord(uint64_t word, uint64_t index) {
  const uint64_t key = (2 * index + 1) * kIndexFactor;
  return XorHigh(XorHigh(XorHigh(word + key) * key) * kScrambleFactor);
}

// `sizes` as the tensor has them, also those that are 1; none for a tensor without dimensions.
constexpr uint64_t ShapeSeed(ElementType type, std::span<const int64_t> sizes) {
  uint64_t seed = MixWord(0, static_cast<uint64_t>(type));
  for (const int64_t size : sizes) seed = MixWord(seed, static_cast<uint64_t>(size));
  return seed;
}

constexpr uint64_t FinishFingerprint(uint64_t sum_of_words, uint64_t shape_seed) {
  return MixWord(sum_of_words + shape_seed, 0);
}

// The sum of words in it.
constexpr uint64_t SumOfWords(uint64_t fingerprint, uint64_t shape_seed) {
  // XorHigh is its own inverse.
  constexpr uint64_t kKey = kIndexFactor;
  uint64_t word = XorHigh(XorHigh(fingerprint) * Inverse(kScrambleFactor));
  word = XorHigh(word * Inverse(kKey)) - kKey;
  return word - shape_seed;
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_FINGERPRINT_H_
