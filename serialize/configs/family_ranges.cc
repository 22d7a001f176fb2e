#include "serialize/configs/family_ranges.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/files.h"
#include "serialize/base/text.h"
#include "serialize/configs/family.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

// Ints are exact; a float makes all of them floats.
struct NumberRange {
  bool any = false, real = false, symbolic = false, nan = false;
  int64_t least = 0, most = 0;
  double least_real = 0, most_real = 0;

  void Add(const FamilyNumber& number) {
    const bool is_real = number.kind == FamilyNumber::kFloat;
    if (number.symbolic) {
      symbolic = true;
      return;
    }
    real = real || is_real;
    const double value = is_real ? number.real : static_cast<double>(number.integer);
    if (std::isnan(value)) {
      nan = true;
      return;
    }
    if (!any || value < least_real) least_real = value;
    if (!any || value > most_real) most_real = value;
    if (!is_real && (!any || number.integer < least)) least = number.integer;
    if (!is_real && (!any || number.integer > most)) most = number.integer;
    any = true;
  }

  std::pair<Value, Value> Ends() const {
    Value from, to;
    from.tag = to.tag = real ? ValueTag::kFloat : ValueTag::kInt;
    from.integer = least;
    to.integer = most;
    from.real = least_real;
    to.real = most_real;
    return {from, to};
  }

  std::string Text() const {
    if (!any) return nan && !symbolic ? "nan" : "*";
    const auto [from, to] = Ends();
    const std::string first = FormatValue(from), last = FormatValue(to);
    return absl::StrCat(first, first == last ? "" : absl::StrCat("..", last), nan ? " or nan" : "",
                        symbolic ? " or *" : "");
  }

  // Two numbers; null for one that JSON lacks or that is unknown.
  ordered_json Json() const {
    if (!any) return ordered_json::array({nullptr, nullptr});
    const auto finite = [](double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr); };
    return real ? ordered_json::array({finite(least_real), finite(most_real)}) : ordered_json::array({least, most});
  }
};

struct FamilyRanges {
  std::string_view example;  // an identity
  uint64_t configs = 0;
  uint64_t calls = 0;
  std::vector<NumberRange> numbers;
};

std::vector<FamilyRanges> FindRanges(const std::vector<DedupConfig>& configs) {
  std::vector<FamilyRanges> families;
  absl::flat_hash_map<std::string, size_t> index;
  for (const DedupConfig& config : configs) {
    FamilyMember member = FindFamily(ReadableConfig(config.identity));
    const auto [at, fresh] = index.try_emplace(std::move(member.key), families.size());
    if (fresh) families.push_back({.example = config.identity, .numbers = {}});
    FamilyRanges& family = families[at->second];
    family.numbers.resize(member.numbers.size());
    ++family.configs;
    family.calls += config.calls;
    for (size_t i = 0; i < member.numbers.size(); ++i) family.numbers[i].Add(member.numbers[i]);
  }
  return families;
}

}  // namespace

absl::Status WriteRanges(const std::vector<DedupConfig>& configs, bool json, std::ostream* out) {
  const char* separator = "[\n";
  for (const FamilyRanges& family : FindRanges(configs)) {
    const Config example = ReadableConfig(family.example);
    if (!json) {
      std::vector<std::string> ranges;
      for (const NumberRange& number : family.numbers) ranges.push_back(number.Text());
      *out << FormatFamily(example, ranges) << '\t' << Counted(family.configs, "config", "configs") << ", "
           << Counted(family.calls, "call", "calls") << '\n';
      continue;
    }
    const FamilyNames names = NameFamily(example);
    ordered_json ranges = ordered_json::object();
    for (size_t i = 0; i < family.numbers.size(); ++i) ranges[names.numbers[i]] = family.numbers[i].Json();
    ordered_json row = {{"api", example.api}, {"family", FormatFamily(example)}};
    if (example.level != kAnyLevel) row["level"] = example.level;
    row["configs"] = family.configs;
    row["calls"] = family.calls;
    row["ranges"] = std::move(ranges);
    *out << std::exchange(separator, ",\n") << DumpJson(row);
  }
  if (json) *out << (*separator == '[' ? "[" : "\n") << "]\n";
  return StreamStatus(*out);
}

}  // namespace torchtrace
