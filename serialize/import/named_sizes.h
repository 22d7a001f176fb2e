// Operator inputs that are given as named sizes, as in TritonBench's newer files:
//   {"gemm": [{"count": 1, "inputs": "((), {'M': '192', 'N': '512', 'K': '512', 'dtype': 'bf16', ...})"}]}

#ifndef TORCHTRACE_SERIALIZE_IMPORT_NAMED_SIZES_H_
#define TORCHTRACE_SERIALIZE_IMPORT_NAMED_SIZES_H_

#include <cstdint>

#include "serialize/model/config.h"

namespace torchtrace {

enum class NamedSizes : uint8_t {
  kNone,     // the config is unchanged: its arguments aren't named sizes
  kTensors,  // it has the tensors that TritonBench makes from the sizes; facts that are not given are "unknown"
  kNumbers,  // it is unknown which tensors have these sizes: numeric strings became numbers
};

// Only for operators outside PyTorch, because PyTorch's take keyword arguments.
NamedSizes ReadNamedSizes(Config* config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_NAMED_SIZES_H_
