#include "dialects/torch/numbers/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "dialects/torch/numbers/numbers.h"
#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

using enum ElementType;
using Sizes = std::vector<int64_t>;

template <typename T>
uint64_t FingerprintOf(ElementType type, const std::vector<T>& elements, Sizes sizes = {}) {
  if (sizes.empty()) sizes = {static_cast<int64_t>(elements.size())};
  Sizes strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return NumbersOf(type, elements.data(), sizes, strides).fingerprint;
}

// All different.
class Fingerprints {
 public:
  explicit Fingerprints(std::string_view what) : what_(what) {}
  ~Fingerprints() {
    std::sort(all_.begin(), all_.end());
    EXPECT_EQ(std::adjacent_find(all_.begin(), all_.end()), all_.end()) << what_;
  }
  void Add(uint64_t fingerprint) { all_.push_back(fingerprint); }
  size_t size() const { return all_.size(); }

 private:
  const std::string_view what_;
  std::vector<uint64_t> all_;
};

// As the header's text has it, without its functions.
uint64_t ByDefinition(ElementType type, const std::vector<uint8_t>& bytes, const Sizes& sizes) {
  const auto mix = [](uint64_t word, uint64_t index) {
    const uint64_t key = (2 * index + 1) * 0x9e3779b97f4a7c15u;
    uint64_t x = word + key;
    x = (x ^ x >> 32) * key;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
  };
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += 8) {
    uint64_t word = 0;
    for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) word |= uint64_t{bytes[at + i]} << (8 * i);
    sum += mix(word, at / 8);
  }
  uint64_t seed = mix(0, static_cast<uint64_t>(type));
  for (const int64_t size : sizes) seed = mix(seed, size);
  return mix(sum + seed, 0);
}

TEST(FingerprintTest, IsThatOfTheDefinition) {
  std::mt19937_64 random(1);
  for (size_t length = 0; length < 200; ++length) {
    std::vector<uint8_t> bytes(length * 50);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const auto elements = static_cast<int64_t>(length);
    for (const auto& [type, sizes] : {std::pair<ElementType, Sizes>{kBool, {50, elements}},
                                      {kUint8, {50 * elements}},
                                      {kInt16, {25, elements, 1}},
                                      {kFloat8E4m3fn, {elements, 5, 2, 5}}}) {
      EXPECT_EQ(FingerprintOf(type, bytes, sizes), ByDefinition(type, bytes, sizes)) << length;
    }
  }
}

// Fingerprints are in files: they never change.
TEST(FingerprintTest, StaysTheSame) {
  std::vector<float> floats(1000);
  std::iota(floats.begin(), floats.end(), -500.0f);
  EXPECT_EQ(FingerprintOf(kFloat32, floats), 10484322809500047504u);
  EXPECT_EQ(FingerprintOf(kFloat32, floats, {10, 100}), 13413013531902083850u);
  EXPECT_EQ(NumbersOf(kInt64, nullptr, Sizes{0}, Sizes{1}).fingerprint, 14259709401919033496u);
}

TEST(FingerprintTest, GivesTheSumOfWordsBack) {
  const int64_t sizes[] = {3, 1, 7};
  for (const uint64_t words : {uint64_t{0}, uint64_t{1}, uint64_t{0x0123456789abcdef}, ~uint64_t{0}}) {
    for (const ElementType type : {ElementType::kBool, ElementType::kFloat32}) {
      const uint64_t shape_seed = ShapeSeed(type, sizes);
      EXPECT_EQ(SumOfWords(FinishFingerprint(words, shape_seed), shape_seed), words);
    }
  }
}

TEST(FingerprintTest, HasDtypeAndShape) {
  Fingerprints all("dtypes and shapes");
  const std::vector<uint64_t> zeros(64);
  for (int64_t number = 0; number < 64; ++number) {
    const auto type = ElementTypeOfNumber(number);
    if (!type) continue;
    for (const Sizes& sizes : std::vector<Sizes>{
             {},        {0},    {1},       {2},    {4},    {8},    {16},   {2, 2}, {4, 1}, {1, 4}, {1, 1, 4}, {4, 1, 1},
             {2, 2, 1}, {1, 1}, {1, 1, 1}, {0, 0}, {0, 1}, {1, 0}, {0, 4}, {4, 0}, {2, 4}, {4, 2}, {2, 2, 2}, {8, 1}}) {
      all.Add(NumbersOf(*type, zeros.data(), sizes, Sizes(sizes.size(), 0)).fingerprint);
    }
  }
  const std::vector<float> ones(4, 1.0f);
  all.Add(FingerprintOf(kFloat32, ones));
  all.Add(FingerprintOf(kFloat32, ones, {2, 2}));
  all.Add(FingerprintOf(kFloat32, ones, {4, 1}));
}

TEST(FingerprintTest, HasEveryBit) {
  std::mt19937_64 random(1);
  for (const bool zero : {true, false}) {
    Fingerprints all("one changed bit");
    std::vector<uint8_t> bytes(4096 + 77);
    if (!zero) std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<uint8_t>(random()); });
    all.Add(FingerprintOf(kUint8, bytes));
    for (uint8_t& byte : bytes) {
      for (int bit = 0; bit < 8; ++bit) {
        byte ^= 1 << bit;
        all.Add(FingerprintOf(kUint8, bytes));
        byte ^= 1 << bit;
      }
    }
  }
}

TEST(FingerprintTest, HasTheSignOfZeroAndThePayloadOfNan) {
  Fingerprints all("float32");
  const auto add = [&](uint32_t bits) {
    all.Add(FingerprintOf(kFloat32, std::vector<uint32_t>(5, bits)));
    all.Add(FingerprintOf(kFloat32, std::vector<uint32_t>{0, 0, bits, 1, 1}));
  };
  add(0x80000000);
  add(0x7f800000);
  for (uint32_t payload = 1; payload < 1u << 23; payload = payload * 3 + 1) {
    add(0x7f800000 | payload);
    add(0xff800000 | payload);
  }
}

TEST(FingerprintTest, HasTheOrder) {
  Fingerprints all("permutations");
  std::vector<float> eight = {0, 1, 2, 3, 4, 5, 6, 7};
  do {
    all.Add(FingerprintOf(kFloat32, eight));
  } while (std::next_permutation(eight.begin(), eight.end()));
  std::vector<uint8_t> bytes = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2};
  do {
    all.Add(FingerprintOf(kUint8, bytes));
  } while (std::next_permutation(bytes.begin(), bytes.end()));
}

TEST(FingerprintTest, HasTheOrderOfRowsAndColumns) {
  Fingerprints all("rows and columns");
  for (const int64_t n : {2, 3, 4, 8, 33, 64}) {
    std::vector<double> matrix(n * n);
    std::iota(matrix.begin(), matrix.end(), 0.0);
    const Sizes sizes = {n, n};
    all.Add(FingerprintOf(kFloat64, matrix, sizes));
    all.Add(NumbersOf(kFloat64, matrix.data(), sizes, Sizes{1, n}).fingerprint);
    for (int64_t a = 0; a < n; ++a) {
      for (int64_t b = a + 1; b < n; ++b) {
        const auto swap = [&] { std::swap_ranges(&matrix[a * n], &matrix[a * n] + n, &matrix[b * n]); };
        swap();
        all.Add(FingerprintOf(kFloat64, matrix, sizes));
        swap();
      }
    }
  }
}

TEST(FingerprintTest, HasTheBeginning) {
  Fingerprints all("rotated");
  std::vector<float> elements(1000);
  std::iota(elements.begin(), elements.end(), 0.0f);
  for (size_t by = 0; by < elements.size(); ++by) {
    all.Add(FingerprintOf(kFloat32, elements));
    std::rotate(elements.begin(), elements.begin() + 1, elements.end());
  }
}

TEST(FingerprintTest, ConstantsAndSequencesDiffer) {
  Fingerprints all("constants and sequences");
  for (int32_t value = -100; value <= 100; ++value) {
    for (size_t length = 1; length <= 100; ++length) {
      all.Add(FingerprintOf(kInt32, std::vector<int32_t>(length, value)));
      if (length == 1) continue;  // they are constant
      for (const int32_t step : {-2, -1, 1, 2}) {
        std::vector<int32_t> sequence(length);
        for (size_t i = 0; i < length; ++i) sequence[i] = value + static_cast<int32_t>(i) * step;
        all.Add(FingerprintOf(kInt32, sequence));
      }
    }
  }
}

// What two tensors of a program differ by is rarely random: a few elements, by a few bits, at any place. So the words'
// parts in the sum are compared, over millions of such differences: in 64 bits none are the same, and in any 32 of them
// about as many as of random numbers.
void ExpectRandom(std::string_view what, std::vector<uint64_t> differences) {
  const auto count = static_cast<double>(differences.size());
  const double expected = count * (count - 1) / 2 / 0x1p32;
  std::sort(differences.begin(), differences.end());
  EXPECT_EQ(std::adjacent_find(differences.begin(), differences.end()), differences.end()) << what;
  for (const int shift : {0, 16, 32}) {
    std::vector<uint32_t> parts(differences.size());
    std::transform(differences.begin(), differences.end(), parts.begin(),
                   [shift](uint64_t bits) { return static_cast<uint32_t>(bits >> shift); });
    std::sort(parts.begin(), parts.end());
    double pairs = 0;
    for (size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
      while (end < parts.size() && parts[end] == parts[begin]) ++end;
      pairs += static_cast<double>(end - begin) * static_cast<double>(end - begin - 1) / 2;
    }
    EXPECT_NEAR(pairs, expected, 6 * std::sqrt(expected)) << what << ", bits from " << shift;
  }
}

TEST(FingerprintTest, DifferencesAreAsRandomNumbers) {
  constexpr size_t kWords = 1 << 19;
  const uint64_t words[] = {0, 0x3f8000003f800000};  // two elements of float32
  const uint64_t changes[] = {1, uint64_t{1} << 32, uint64_t{1} << 31, uint64_t{1} << 63, 0x3f800000};
  for (const uint64_t word : words) {
    for (const uint64_t change : changes) {
      std::vector<uint64_t> differences(kWords);
      for (size_t i = 0; i < kWords; ++i) differences[i] = MixWord(word ^ change, i) - MixWord(word, i);
      ExpectRandom("one changed word", std::move(differences));
    }
  }
  constexpr uint64_t kPlaces = 1000;
  std::vector<uint64_t> two_changed, moved, swapped;
  for (uint64_t a = 0; a < kPlaces; ++a) {
    for (uint64_t b = a + 1; b < kPlaces; ++b) {
      const uint64_t change_a = MixWord(1, a) - MixWord(0, a);
      const uint64_t change_b = MixWord(1, b) - MixWord(0, b);
      two_changed.push_back(change_a + change_b);
      moved.push_back(change_a - change_b);
      swapped.push_back(MixWord(a, b) + MixWord(b, a) - MixWord(a, a) - MixWord(b, b));
    }
  }
  ExpectRandom("two changed words", std::move(two_changed));
  ExpectRandom("a moved word", std::move(moved));
  ExpectRandom("two swapped words", std::move(swapped));
}

}  // namespace
}  // namespace torchtrace::torch_dialect
