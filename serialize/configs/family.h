// Families: configs that differ only in sizes and numbers, and the features of each member.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

// The configurations of a family have the same API, structure, dtypes, devices, names,
// strings and bools. Used by dedup --generalize, diff and stats --by family.
//
// Ranks, lengths of containers and whether a tensor has strides are structure. An int
// and a float in the same place belong to the same family. Complex numbers, ints
// beyond 64 bits and keys of dicts must be equal.

// One size, stride, int or float of a configuration, in the order of its text.
struct FamilyNumber {
  // kSize: of a tensor, an array or a storage, or in a torch.Size.
  enum Kind : uint8_t { kSize, kStride, kInt, kFloat } kind = kSize;
  bool symbolic = false;  // its value is unknown
  int64_t integer = 0;
  double real = 0;  // kFloat

  bool operator==(const FamilyNumber& other) const;  // by bits
};

// Where the shape of a tensor is among the numbers.
struct FamilyTensor {
  size_t first = 0;
  size_t rank = 0;
};

struct FamilyMember {
  std::string key;                    // equal for members of the same family
  std::vector<FamilyNumber> numbers;  // equally many for each member of a family
  std::vector<FamilyTensor> tensors;  // those of known shape; equal for each member
};

FamilyMember FindFamily(const Config& config);

// The family in text form, with `*` for each number that may differ:
// torch.add(Tensor([*, *], "float32"), Tensor([*, *], "float32"), alpha=*).
// Different families have different texts, unless they differ only in their level.
std::string FormatFamily(const Config& member);
// The same with these texts for FindFamily's numbers.
std::string FormatFamily(const Config& member, const std::vector<std::string>& numbers);

// Names for each of FindFamily's numbers and tensors:
// `args[0].shape[1]`, `alpha`, `args[1][2]`; `args[0]`.
struct FamilyNames {
  std::vector<std::string> numbers;
  std::vector<std::string> tensors;
};
FamilyNames NameFamily(const Config& member);

// A feature of a family's member; generalize.h keeps all features of a family covered.
struct Feature {
  enum Kind : uint8_t {
    kValue,      // of number a: FeatureValue
    kSign,       // of number a: negative
    kPower,      // of number a: 1 a power of two, 0 not
    kKind,       // of number a: FamilyNumber::Kind
    kExtreme,    // of number a: 0 the least of the family, 1 the greatest
    kQuarter,    // of number a: 0 to 3
    kEqual,      // of the numbers a and b: 1 equal, 0 not
    kBroadcast,  // of the tensors a and b: FeatureBroadcast
  } kind = kValue;
  uint8_t value = 0;
  uint32_t a = 0;
  uint32_t b = 0;

  bool operator==(const Feature& other) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Feature& f) {
    return H::combine(std::move(h), f.kind, f.value, f.a, f.b);
  }
};

struct FamilyFeatures {
  std::vector<Feature> features;
  // By member: indexes into features, ascending. Without features that all members have.
  std::vector<std::vector<uint32_t>> of;
};

// All members must be of one family.
FamilyFeatures FindFeatures(const std::vector<FamilyMember>& members);

// In words: `args[0].shape[1]: multiple of 8`.
std::string DescribeFeature(const Feature& feature, const FamilyNames& names);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_
