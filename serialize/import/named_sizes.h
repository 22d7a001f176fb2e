// Operators' inputs that a file gives as sizes with names, as TritonBench's newer ones do:
//   {"gemm": [{"count": 1, "inputs": "((), {'M': '192', 'N': '512', 'K': '512', 'dtype': 'bf16', ...})"}]}

#ifndef TORCHTRACE_SERIALIZE_IMPORT_NAMED_SIZES_H_
#define TORCHTRACE_SERIALIZE_IMPORT_NAMED_SIZES_H_

#include <cstdint>

#include "serialize/model/config.h"

namespace torchtrace {

enum class NamedSizes : uint8_t {
  kNone,     // the config is as it was: its arguments are given as such
  kTensors,  // it has the tensors that TritonBench makes of them; what it isn't told of one is "unknown"
  kNumbers,  // which tensors have these sizes nobody tells: numbers in text are numbers
};

// Only of operators that PyTorch doesn't have: those of PyTorch take keywords.
NamedSizes ReadNamedSizes(Config* config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_NAMED_SIZES_H_
