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
// Operators are those of Python: + - * / // ==. They apply to lists item by item, and a single number is repeated to
// the length of the other side. Functions: prod(list), len(list), at(list, positions), where negative positions count
// from the end. Immutable once parsed; callable from any thread.
class Formula {
 public:
  // InvalidArgument names the column and what was expected there.
  static absl::StatusOr<Formula> Parse(std::string_view text);

  std::vector<std::string> names() const;

  // nullopt if a name has no value, lists differ in length, or a position is out of range. A division by 0 is 0.
  using Values = std::function<std::optional<Numbers>(const std::string& name)>;
  std::optional<Numbers> Evaluate(const Values& values) const;

 private:
  friend class FormulaParser;
  // Steps run in order, on a stack.
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
