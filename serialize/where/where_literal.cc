#include "serialize/where/where_literal.h"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace torchtrace {

namespace {

template <typename T>
bool ParseWhole(std::string_view text, T* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<int> CompareNumbers(const WhereNumber& a, const WhereNumber& b) {
  if (a.whole && b.whole) return a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::nullopt;
  return a.real < b.real ? -1 : a.real > b.real ? 1 : 0;
}

std::optional<WhereNumber> ParseWhereNumber(std::string_view text) {
  int64_t integer;
  if (ParseWhole(text, &integer)) return WhereNumber::Whole(integer);
  // What from_chars takes beyond numbers (inf, nan, infinity) are words of ours as well.
  double real;
  if (ParseWhole(text, &real)) return WhereNumber::Real(real);
  return std::nullopt;
}

std::optional<WhereNumber> ParseWhereDuration(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::optional<WhereNumber> number = ParseWhereNumber(text.substr(0, text.size() - unit.size()));
    if (!number.has_value()) continue;
    const double total = number->real * ns;
    if (!(std::abs(total) < 9e18)) return std::nullopt;
    return WhereNumber::Whole(static_cast<int64_t>(total));
  }
  return std::nullopt;
}

std::optional<bool> WhereLiteral::boolean() const {
  if (Is("true") || Is("True")) return true;
  if (Is("false") || Is("False")) return false;
  return std::nullopt;
}

std::string WhereLiteral::ToString() const {
  if (type == kText) return quoted ? QuoteWhereText(text) : text;
  const auto append = [](std::string* out, const std::optional<int64_t>& dim) {
    dim.has_value() ? absl::StrAppend(out, *dim) : absl::StrAppend(out, "*");
  };
  return absl::StrCat("[", absl::StrJoin(dims, ", ", append), "]");
}

std::string QuoteWhereText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace torchtrace
