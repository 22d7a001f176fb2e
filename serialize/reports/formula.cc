#include "serialize/reports/formula.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"

namespace torchtrace {

// Recursive descent; each function parses the rule in its name and adds its steps.
class FormulaParser {
 public:
  explicit FormulaParser(std::string_view text) : text_(text) {}

  absl::StatusOr<Formula> Parse() {
    if (absl::Status s = Comparison(); !s.ok()) return s;
    SkipSpace();
    if (at_ < text_.size()) return Expected("an operator or the end");
    return std::move(formula_);
  }

 private:
  using Step = Formula::Step;
  // More than anybody writes, and far less than overflows the stack.
  static constexpr int kMaxDepth = 100;

  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool Take(std::string_view symbol) {
    SkipSpace();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }
  void Add(Step::Kind kind, double number = 0, std::string name = {}) {
    formula_.steps_.push_back({kind, number, std::move(name)});
  }
  absl::Status Expected(const char* what) const {
    return absl::InvalidArgumentError(absl::StrCat("column ", at_ + 1, ": expected ", what));
  }

  absl::Status Comparison() {
    if (absl::Status s = Sum(); !s.ok()) return s;
    if (!Take("==")) return absl::OkStatus();
    absl::Status right = Sum();
    Add(Step::kEqual);
    return right;
  }

  absl::Status Sum() {
    if (absl::Status s = Product(); !s.ok()) return s;
    while (true) {
      const bool add = Take("+");
      if (!add && !Take("-")) return absl::OkStatus();
      if (absl::Status s = Product(); !s.ok()) return s;
      Add(add ? Step::kAdd : Step::kSubtract);
    }
  }

  absl::Status Product() {
    if (absl::Status s = Operand(); !s.ok()) return s;
    while (true) {
      Step::Kind kind;
      if (Take("*")) {
        kind = Step::kMultiply;
      } else if (Take("//")) {
        kind = Step::kFloorDivide;
      } else if (Take("/")) {
        kind = Step::kDivide;
      } else {
        return absl::OkStatus();
      }
      if (absl::Status s = Operand(); !s.ok()) return s;
      Add(kind);
    }
  }

  absl::Status Operand() {
    if (++depth_ > kMaxDepth) return Expected("fewer brackets inside each other");
    const absl::Status status = OperandInside();
    --depth_;
    return status;
  }

  absl::Status OperandInside() {
    if (Take("(")) {
      if (absl::Status s = Comparison(); !s.ok()) return s;
      return Take(")") ? absl::OkStatus() : Expected(")");
    }
    SkipSpace();
    const bool negative = Take("-");
    const size_t start = at_;
    const auto in_name = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    if (double number = 0; absl::SimpleAtod(word, &number)) {
      Add(Step::kNumber, negative ? -number : number);
      return absl::OkStatus();
    }
    if (word.empty() || negative) return Expected("a number, a name or (");
    if (!Take("(")) {
      Add(Step::kName, 0, word);
      return absl::OkStatus();
    }
    const bool at = word == "at";
    if (!at && word != "prod" && word != "len") {
      at_ = start;
      return Expected("prod, len or at");
    }
    if (absl::Status s = Sum(); !s.ok()) return s;
    if (at) {
      if (!Take(",")) return Expected(", and a position");
      if (absl::Status s = Sum(); !s.ok()) return s;
    }
    Add(at ? Step::kAt : word == "len" ? Step::kLen : Step::kProd);
    return Take(")") ? absl::OkStatus() : Expected(")");
  }

  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  Formula formula_;
};

std::vector<std::string> Formula::names() const {
  std::vector<std::string> names;
  for (const Step& step : steps_) {
    if (step.kind == Step::kName) names.push_back(step.name);
  }
  return names;
}

absl::StatusOr<Formula> Formula::Parse(std::string_view text) { return FormulaParser(text).Parse(); }

std::optional<Numbers> Formula::Evaluate(const Values& values) const {
  std::vector<Numbers> stack;
  for (const Step& step : steps_) {
    if (step.kind == Step::kNumber) {
      stack.push_back({step.number});
      continue;
    }
    if (step.kind == Step::kName) {
      std::optional<Numbers> value = values(step.name);
      if (!value.has_value()) return std::nullopt;
      stack.push_back(*std::move(value));
      continue;
    }
    Numbers& top = stack.back();
    if (step.kind == Step::kLen) {
      top = {static_cast<double>(top.size())};
      continue;
    }
    if (step.kind == Step::kProd) {
      double product = 1;
      for (const double number : top) product *= number;
      top = {product};
      continue;
    }
    const Numbers right = std::move(top);
    stack.pop_back();
    Numbers& left = stack.back();
    if (step.kind == Step::kAt) {
      Numbers chosen;
      for (const double number : right) {
        const double position = number < 0 ? number + static_cast<double>(left.size()) : number;
        if (!(position >= 0 && position < static_cast<double>(left.size()))) return std::nullopt;
        chosen.push_back(left[static_cast<size_t>(position)]);
      }
      left = std::move(chosen);
      continue;
    }
    const size_t size = left.size() == 1 ? right.size() : left.size();
    if (right.size() != 1 && right.size() != size) return std::nullopt;
    Numbers result(size);
    for (size_t i = 0; i < size; ++i) {
      const double a = left[left.size() == 1 ? 0 : i];
      const double b = right[right.size() == 1 ? 0 : i];
      result[i] = step.kind == Step::kAdd           ? a + b
                  : step.kind == Step::kSubtract    ? a - b
                  : step.kind == Step::kMultiply    ? a * b
                  : step.kind == Step::kEqual       ? static_cast<double>(a == b)
                  : b == 0                          ? 0
                  : step.kind == Step::kFloorDivide ? std::floor(a / b)
                                                    : a / b;
    }
    left = std::move(result);
  }
  return stack.back();
}

}  // namespace torchtrace
