// Small formulas over named numbers, for data that says how something is computed (shapes.yaml).

#ifndef TORCHTRACE_SERIALIZE_REPORTS_FORMULA_H_
#define TORCHTRACE_SERIALIZE_REPORTS_FORMULA_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// One number, or a list of them: the sizes of a tensor.
using Numbers = std::vector<double>;

//   2 * M * N * K
//   prod((X + 2 * padding - dilation * (R - 1) - 1) // stride + 1)
//   at(X, dim)
//
// Operators are those of Python: + - * / // ==, of lists item by item, where a single number stands for as many as the
// other side has. Functions: prod and len of a list, at of a list and a position, or several, which count from the end
// where they are negative. Immutable once parsed; callable from any thread.
class Formula {
 public:
  // InvalidArgument names the column and what was expected there.
  static absl::StatusOr<Formula> Parse(std::string_view text);

  // Nothing where a name has no value, lists differ in length, or a position isn't there. A division by 0 is 0.
  using Values = std::function<std::optional<Numbers>(const std::string& name)>;
  std::optional<Numbers> Evaluate(const Values& values) const;

 private:
  friend class FormulaParser;
  // In the order in which they are computed, on a stack.
  struct Step {
    enum Kind : uint8_t { kNumber, kName, kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kEqual, kProd, kLen, kAt };
    Kind kind = kNumber;
    double number = 0;
    std::string name = {};
  };
  std::vector<Step> steps_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_FORMULA_H_
