// Sizes and strides in the JSON of PyTorch's profilers.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_JSON_DIMS_H_
#define TORCHTRACE_SERIALIZE_IMPORT_JSON_DIMS_H_

#include <cstdint>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// Appends to `out`. False for what is no list of integers.
inline bool ReadJsonDims(const nlohmann::json& list, std::vector<Dim>* out) {
  if (!list.is_array()) return false;
  out->reserve(list.size());
  for (const nlohmann::json& size : list) {
    if (!size.is_number_integer()) return false;
    out->emplace_back(size.get<int64_t>());
  }
  return true;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_JSON_DIMS_H_
