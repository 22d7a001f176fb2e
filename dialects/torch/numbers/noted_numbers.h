// Numbers as notes on tensors have them.

#ifndef TORCHTRACE_DIALECTS_TORCH_NUMBERS_NOTED_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_NUMBERS_NOTED_NUMBERS_H_

#include "dialects/torch/numbers/numbers.h"
#include "serialize/model/tensor_notes.h"

namespace torchtrace::torch_dialect {

inline TensorNote::Numbers NotedNumbers(const Numbers& numbers) {
  TensorNote::Numbers noted = {.nans = numbers.nans,
                               .positive_infinities = numbers.positive_infinities,
                               .negative_infinities = numbers.negative_infinities,
                               .zeros = numbers.zeros,
                               .finite = numbers.finite(),
                               .fingerprint = numbers.fingerprint};
  if (noted.finite != 0) {
    noted.least = numbers.least;
    noted.most = numbers.most;
    noted.mean = numbers.mean;
    noted.norm = numbers.norm;
  }
  return noted;
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_NUMBERS_NOTED_NUMBERS_H_
