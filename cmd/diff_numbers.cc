#include "cmd/diff_numbers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/text.h"
#include "serialize/configs/dedup.h"

namespace torchtrace {
namespace {

absl::StatusOr<double> ParseTolerance(const std::string& text) {
  double number = 0;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number) && number >= 0) return number;
  return absl::InvalidArgumentError(absl::StrCat(PlainLine(text), " is not a number from 0"));
}

std::optional<double> ToleranceIn(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return *ParseTolerance(text);
}

}  // namespace

void NumberFlags::AddTo(App* app) {
  Option* const numbers =
      app->add_flag("--numbers", numbers_,
                    "Compare the numbers of tensors (run --numbers, --values): the first call that computes something "
                    "else")
          ->group("Numbers");
  for (const auto& [name, value, what] :
       {std::tuple("--rtol", &rtol_, "relative"), std::tuple("--atol", &atol_, "absolute")}) {
    app->add_option(name, *value,
                    absl::StrCat("The ", what, " tolerance of all floats (default: torch.testing's, by dtype)"))
        ->option_text("X")
        ->check(Checked(ParseTolerance))
        ->needs(numbers)
        ->group("Numbers");
  }
}

NumberDiffOptions NumberFlags::Apply(DiffOptions* options, const std::vector<std::string>& ignored) const {
  std::vector<std::string> parts;
  for (const std::string& name : Coarsening::Names()) {
    const bool differs = name == "dtype" || name == "device" || name == "stride";
    if (differs || std::find(ignored.begin(), ignored.end(), name) != ignored.end()) parts.push_back(name);
  }
  options->scope.coarsening = *Coarsening::Parse(parts);
  NumberDiffOptions numbers;
  numbers.tolerances = {ToleranceIn(rtol_), ToleranceIn(atol_)};
  numbers.a_name = options->a_name;
  numbers.b_name = options->b_name;
  return numbers;
}

std::string NumbersLeftOut(const std::string& a_path, const Trace& a, const std::string& b_path, const Trace& b) {
  for (const Trace* const trace : {&a, &b}) {
    if (std::none_of(trace->processes().begin(), trace->processes().end(), HoldsNumbers)) return "";
  }
  const auto word = [](const std::string& path) { return path == "-" ? path : ShellQuote(path); };
  return absl::StrCat("the numbers of tensors in both traces were not compared: torchtrace diff --numbers ",
                      word(a_path), " ", word(b_path), " does");
}

}  // namespace torchtrace
