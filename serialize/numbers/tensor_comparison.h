// Whether a tensor of one trace has the numbers of a tensor of another one.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_TENSOR_COMPARISON_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_TENSOR_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"

namespace torchtrace {

// Numbers x and y are close if |x - y| <= absolute + relative * max(|x|, |y|).
struct Tolerances {
  double relative = 0;
  double absolute = 0;

  friend bool operator==(const Tolerances&, const Tolerances&) = default;
};

struct ToleranceOptions {
  std::optional<double> relative = {};  // for all dtypes
  std::optional<double> absolute = {};
  Tolerances least = {};  // of floats, where those above are not given
};

// Those of torch.testing.assert_close, for float8 what its precision needs. Zero for integers and bools, and for the
// dtypes of quantised tensors, whose numbers are those of their integers. Of two dtypes the wider ones.
Tolerances TolerancesOf(std::string_view a_dtype, std::string_view b_dtype, const ToleranceOptions& options = {});

enum class Likeness : uint8_t {
  kUnknown,    // one has no numbers, or they have other shapes
  kEqual,      // bit for bit
  kClose,      // within the tolerances
  kDifferent,  // beyond them
};

struct TensorComparison {
  Likeness likeness = Likeness::kUnknown;
  bool other_shapes = false;  // kUnknown: otherwise a side has no numbers
  bool other_dtypes = false;
  bool other_devices = false;

  // How far apart they are. Without the elements of both, of what differs most: extremes, mean, norm.
  double absolute = 0;
  // Of the largest magnitude, for means of the root mean square. Infinite where other numbers of elements are NaN or
  // infinite.
  double relative = 0;

  // Elements that aren't equal, where both traces have all elements, of one dtype; 0: they don't.
  uint64_t elements_apart = 0;
  uint64_t elements = 0;
};

// The values describe the tensors; null: unknown. Compares fingerprints, then the elements, if both traces have them
// and the dtypes are the same, else extremes, mean and norm: these are within the tolerances if all elements are; the
// reverse isn't true.
TensorComparison CompareTensors(const TensorNote& a, const Value* a_tensor, const TensorNote& b, const Value* b_tensor,
                                const ToleranceOptions& options = {});

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_TENSOR_COMPARISON_H_
