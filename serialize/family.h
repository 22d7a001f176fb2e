// A family is the set of configurations that differ only in sizes and numbers: same
// API, structure, dtypes, devices, names, strings and bools. Used by dedup
// --generalize, diff and stats --by family.

#ifndef TORCHTRACE_SERIALIZE_FAMILY_H_
#define TORCHTRACE_SERIALIZE_FAMILY_H_

#include <string>
#include <string_view>
#include <vector>

#include "serialize/config.h"

namespace torchtrace {

// One size, stride, int or float of a configuration, in the order of its text.
struct FamilyNumber {
  enum Kind : uint8_t { kSize, kStride, kInt, kFloat } kind = kSize;
  bool symbolic = false;  // a symbolic size
  int64_t integer = 0;
  double real = 0;  // kFloat
};

struct FamilyMember {
  std::string key;                    // equal bytes: the same family
  std::vector<FamilyNumber> numbers;  // as many for each member of a family
};

FamilyMember FindFamily(const Config& config);

// The family in text form, each number that may differ shown as `*`:
// torch.add(Tensor([*, *], "float32"), Tensor([*, *], "float32"), alpha=*).
std::string FormatFamily(const Config& member);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FAMILY_H_
