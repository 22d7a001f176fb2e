// A family is the set of configurations that differ only in sizes and numbers: same
// API, structure, dtypes, devices, names, strings and bools. Used by dedup
// --generalize, diff and stats --by family.
//
// Ranks, lengths of containers and whether a tensor has strides are structure. An
// int and a float in the same place are the same family. Complex numbers, ints
// beyond 64 bits and keys of dicts are taken as they are.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/model/config.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_H_
