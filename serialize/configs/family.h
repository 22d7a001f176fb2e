// Families: configs that differ in sizes alone, and what marks each of them.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

// A family is the set of configurations that differ only in sizes and numbers: same
// API, structure, dtypes, devices, names, strings and bools. Used by dedup
// --generalize, diff and stats --by family.
//
// Ranks, lengths of containers and whether a tensor has strides are structure. An
// int and a float in the same place are the same family. Complex numbers, ints
// beyond 64 bits and keys of dicts are taken as they are.

// One size, stride, int or float of a configuration, in the order of its text.
struct FamilyNumber {
  // kSize: of a tensor, an array or a storage, or in a torch.Size.
  enum Kind : uint8_t { kSize, kStride, kInt, kFloat } kind = kSize;
  bool symbolic = false;  // its value is not known
  int64_t integer = 0;
  double real = 0;  // kFloat

  bool operator==(const FamilyNumber& other) const;  // by bits
};

// The shape of a tensor among the numbers.
struct FamilyTensor {
  size_t first = 0;
  size_t rank = 0;
};

struct FamilyMember {
  std::string key;                    // equal bytes: the same family
  std::vector<FamilyNumber> numbers;  // as many for each member of a family
  std::vector<FamilyTensor> tensors;  // the same for each member; those whose shape is known
};

FamilyMember FindFamily(const Config& config);

// The family in text form, each number that may differ shown as `*`:
// torch.add(Tensor([*, *], "float32"), Tensor([*, *], "float32"), alpha=*).
// Two families differ in it, unless they differ only in their level.
std::string FormatFamily(const Config& member);

// What each of FindFamily's numbers is, and each of its tensors:
// `args[0].shape[1]`, `alpha`, `args[1][2]`; `args[0]`.
struct FamilyNames {
  std::vector<std::string> numbers;
  std::vector<std::string> tensors;
};
FamilyNames NameFamily(const Config& member);

// The features of a family's members that generalize.h keeps covered, as numbers.

struct Feature {
  enum Kind : uint8_t {
    kValue,      // of number a: FeatureValue
    kSign,       // of number a: negative
    kPower,      // of number a: 1 a power of two, 0 not
    kKind,       // of number a: FamilyNumber::Kind
    kExtreme,    // of number a: 0 the family's least, 1 its greatest
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

// Features as numbers from 0.
struct FamilyFeatures {
  std::vector<Feature> features;
  // By member: its features, rising. Without those that all members have.
  std::vector<std::vector<uint32_t>> of;
};

// Of members of one family.
FamilyFeatures FindFeatures(const std::vector<FamilyMember>& members);

// In words: `args[0].shape[1]: multiple of 8`.
std::string DescribeFeature(const Feature& feature, const FamilyNames& names);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_
