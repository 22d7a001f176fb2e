// The features of a family's members that generalize.h keeps covered, as numbers.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_FEATURES_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_FEATURES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "serialize/configs/family.h"

namespace torchtrace {

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

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_FEATURES_H_
