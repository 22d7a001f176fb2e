// The sizes and numbers that each family of configs was called with: from the least to the most.

#ifndef TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_RANGES_H_
#define TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_RANGES_H_

#include <ostream>
#include <vector>

#include "absl/status/status.h"
#include "serialize/configs/dedup.h"

namespace torchtrace {

// Writes a row for each family (family.h) of the configs, in the order of their first ones. Text: a config with ranges
// in place of numbers, `torch.relu(Tensor([2..64, 48], "float32"))`, then a tab, its configs and their calls. JSON: a
// list of objects, with the ranges by the names of the numbers. Aborted when `out` fails.
absl::Status WriteRanges(const std::vector<DedupConfig>& configs, bool json, std::ostream* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_CONFIGS_FAMILY_RANGES_H_
