#include "serialize/diff/config_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "serialize/base/bytes.h"
#include "serialize/diff/reports.h"
#include "serialize/forms/call_labels.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/levels.h"

namespace torchtrace {
bool DiffScope::Accepts(const ConfigHead& head) const {
  return (levels.empty() || std::find(levels.begin(), levels.end(), head.level) != levels.end()) &&
         filter.Accepts(head.api);
}

namespace {

// A module's call without the number of its model, and without the wrapper that torch.compile makes.
std::string WithoutCompilation(std::string_view identity) {
  const ModuleLabel label = ModuleLabelOf(identity);
  if (label.empty()) return std::string(identity);
  Config config = ReadableConfig(identity);
  std::vector<absl::string_view> parts;
  if (!label.model.empty()) {
    for (const absl::string_view part : absl::StrSplit(label.path, '.')) {
      if (part != "_orig_mod") parts.push_back(part);
    }
  }
  const std::string path = absl::StrJoin(parts, ".");
  for (auto& [name, value] : config.kwargs) {
    if (name == "path") {
      value.text = path;
      value.whole = path.size();
    }
  }
  std::erase_if(config.kwargs, [](const auto& argument) { return argument.first == "model"; });
  return EncodeConfig(config);
}

}  // namespace

std::vector<uint32_t> CommonConfigs::Add(const Trace& trace, const DiffScope& scope) {
  std::vector<uint32_t> symbols(trace.config_count(), kLeftOut);
  for (ConfigId id = 0; id < symbols.size(); ++id) {
    if (!scope.Accepts(ReadConfigHead(trace.identity(id)))) continue;
    std::string_view identity = spelling_.Apply(trace.identity(id));
    std::string unwrapped;
    if (scope.through_compilation && ReadConfigHead(identity).level == kFrameLevel) {
      unwrapped = WithoutCompilation(identity);
      identity = unwrapped;
    }
    // Without facets the variant is the config.
    const VariantId variant = scope.coarsening.empty() ? configs_.Intern(identity, {})
                                                       : configs_.Intern(scope.coarsening.Apply(identity), {});
    symbols[id] = configs_.config_of(variant);
  }
  return symbols;
}

std::string CommonConfigs::Text(uint32_t symbol) const { return FormatConfig(ReadableConfig(identity(symbol))); }

FamilyMember CommonConfigs::Member(uint32_t symbol) const { return FindFamily(ReadableConfig(identity(symbol))); }

const std::vector<uint32_t>& CommonConfigs::Families() {
  if (families_.size() == size()) return families_;
  absl::flat_hash_map<std::string, uint32_t> ids;
  families_.clear();
  families_.reserve(size());
  for (uint32_t symbol = 0; symbol < size(); ++symbol) {
    const auto next = static_cast<uint32_t>(ids.size());
    std::string key = Member(symbol).key;
    key.push_back(static_cast<char>(head(symbol).level));
    families_.push_back(ids.try_emplace(std::move(key), next).first->second);
  }
  family_count_ = ids.size();
  return families_;
}

namespace {

// If a family has more pairs than this, they are not all compared.
constexpr size_t kMaxCandidates = size_t{1} << 20;

// A config that only one side has.
struct Lone {
  uint32_t symbol;
  uint64_t calls;
  std::vector<FamilyNumber> numbers;
  std::string family;        // from FamilyName
  std::string kind;          // the same without dtypes, devices, strides and layouts
  std::string same_numbers;  // equal for configs that differ only in these
};

double ToDouble(const FamilyNumber& number) {
  return number.kind == FamilyNumber::kFloat ? number.real : static_cast<double>(number.integer);
}

// 0 for equal numbers, up to 2 for numbers of opposite sign.
double Distance(const FamilyNumber& a, const FamilyNumber& b) {
  if (a.symbolic != b.symbolic) return 1;
  if (a.symbolic) return 0;
  if (a.kind != FamilyNumber::kFloat && b.kind != FamilyNumber::kFloat && a.integer == b.integer) return 0;
  const double x = ToDouble(a), y = ToDouble(b);
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  const double distance = std::abs(x - y) / std::max(std::abs(x), std::abs(y));
  return std::isfinite(distance) ? distance : 1;
}

int Compare(const FamilyNumber& a, const FamilyNumber& b) {
  if (a.symbolic != b.symbolic) return a.symbolic ? 1 : -1;
  if (a.kind != FamilyNumber::kFloat && b.kind != FamilyNumber::kFloat) {
    return a.integer < b.integer ? -1 : a.integer > b.integer ? 1 : 0;
  }
  const double x = ToDouble(a), y = ToDouble(b);
  if (std::isnan(x) || std::isnan(y)) return static_cast<int>(std::isnan(x)) - static_cast<int>(std::isnan(y));
  return x < y ? -1 : x > y ? 1 : 0;
}

bool Less(const std::vector<FamilyNumber>& a, const std::vector<FamilyNumber>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const int order = Compare(a[i], b[i]); order != 0) return order < 0;
  }
  return a.size() < b.size();
}

struct Candidate {
  uint32_t differing;  // numbers
  float distance;
  uint64_t calls_apart;
  uint32_t a, b;  // indexes

  auto Key() const { return std::tuple(differing, distance, calls_apart, a, b); }
};

// Pairs of indexes, each index at most once: the nearest first, until one side has no more.
// Both sides must be sorted by their numbers.
std::vector<std::pair<size_t, size_t>> PairNearest(const std::vector<Lone>& a, const std::vector<Lone>& b) {
  std::vector<std::pair<size_t, size_t>> pairs;
  if (a.size() > kMaxCandidates / b.size()) {
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) pairs.emplace_back(i, i);
    return pairs;
  }
  std::vector<Candidate> candidates;
  candidates.reserve(a.size() * b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j) {
      uint32_t differing = 0;
      double sum = 0;
      for (size_t n = 0; n < std::min(a[i].numbers.size(), b[j].numbers.size()); ++n) {
        const double distance = Distance(a[i].numbers[n], b[j].numbers[n]);
        if (distance > 0) ++differing;
        sum += distance;
      }
      const uint64_t apart = std::max(a[i].calls, b[j].calls) - std::min(a[i].calls, b[j].calls);
      candidates.push_back(
          {differing, static_cast<float>(sum), apart, static_cast<uint32_t>(i), static_cast<uint32_t>(j)});
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& x, const Candidate& y) { return x.Key() < y.Key(); });
  std::vector<bool> a_taken(a.size()), b_taken(b.size());
  for (const Candidate& candidate : candidates) {
    if (a_taken[candidate.a] || b_taken[candidate.b]) continue;
    a_taken[candidate.a] = b_taken[candidate.b] = true;
    pairs.emplace_back(candidate.a, candidate.b);
    if (pairs.size() == std::min(a.size(), b.size())) break;
  }
  return pairs;
}

// Calls by symbol; `counts` is by VariantId.
std::vector<uint64_t> CountSymbols(const Trace& trace, const std::vector<uint64_t>& counts, const DiffScope& scope,
                                   CommonConfigs* configs) {
  const std::vector<uint32_t> symbols = configs->Add(trace, scope);
  std::vector<uint64_t> calls(configs->size());
  for (VariantId variant = 0; variant < counts.size(); ++variant) {
    const uint32_t symbol = symbols[trace.config_of(variant)];
    if (symbol != CommonConfigs::kLeftOut) calls[symbol] += counts[variant];
  }
  return calls;
}

class ConfigComparison {
 public:
  ConfigComparison(CommonConfigs* configs, std::vector<uint64_t> a_calls, std::vector<uint64_t> b_calls,
                   bool compare_counts)
      : configs_(*configs), a_calls_(std::move(a_calls)), b_calls_(std::move(b_calls)), counts_(compare_counts) {
    a_calls_.resize(configs->size());
    b_calls_.resize(configs->size());
  }

  ConfigDiff Run() {
    CompareApis();
    CompareAllConfigs();
    return std::move(diff_);
  }

 private:
  struct ApiCalls {
    uint64_t a = 0;
    uint64_t b = 0;
  };

  void CompareApis() {
    std::map<std::pair<int, std::string_view>, ApiCalls> apis;
    for (uint32_t symbol = 0; symbol < configs_.size(); ++symbol) {
      const ConfigHead head = configs_.head(symbol);
      ApiCalls& api = apis[{head.level, head.api}];
      api.a += a_calls_[symbol];
      api.b += b_calls_[symbol];
      diff_.a.calls += a_calls_[symbol];
      diff_.b.calls += b_calls_[symbol];
      if (a_calls_[symbol] > 0) ++diff_.a.configs;
      if (b_calls_[symbol] > 0) ++diff_.b.configs;
    }
    for (const auto& [key, api] : apis) {
      if (api.a > 0) ++diff_.a.apis;
      if (api.b > 0) ++diff_.b.apis;
      if (api.a == 0 && api.b == 0) continue;
      const Change change = api.a == 0 ? Change::kAdded : api.b == 0 ? Change::kRemoved : Change::kCount;
      if (change == Change::kCount && (api.a == api.b || !counts_)) {
        ++diff_.same_apis;
      } else {
        diff_.apis.push_back({change, key.first, std::string(key.second), api.a, api.b});
      }
    }
  }

  void CompareAllConfigs() {
    // Only differing symbols are parsed: usually there are few.
    const Coarsening kinds = Coarsening::Parse({"dtype", "device", "stride", "layout"}).value();
    std::vector<Lone> a_lones, b_lones;
    for (uint32_t symbol = 0; symbol < configs_.size(); ++symbol) {
      const uint64_t a = a_calls_[symbol], b = b_calls_[symbol];
      if (a == 0 && b == 0) continue;
      if (a > 0 && b > 0 && (a == b || !counts_)) {
        ++diff_.same_configs;
        continue;
      }
      FamilyMember member = configs_.Member(symbol);
      rows_.push_back({.family = FamilyName(symbol, member.key), .numbers = member.numbers, .difference = {}});
      ConfigDifference& row = rows_.back().difference;
      row.a_calls = a;
      row.b_calls = b;
      if (a > 0) row.a = symbol;
      if (b > 0) row.b = symbol;
      if (a > 0 && b > 0) {
        row.change = Change::kCount;
        continue;
      }
      const FamilyMember coarse = FindFamily(kinds.Apply(ReadableConfig(configs_.identity(symbol))));
      std::string kind = FamilyName(symbol, coarse.key);
      std::string same_numbers = kind + NumbersKey(coarse.numbers);
      (a > 0 ? a_lones : b_lones)
          .push_back({symbol, a + b, std::move(member.numbers), std::move(rows_.back().family), std::move(kind),
                      std::move(same_numbers)});
      rows_.pop_back();
    }
    PairLones(&a_lones, &b_lones);
    std::sort(rows_.begin(), rows_.end(), [](const Row& x, const Row& y) {
      if (const int order = x.family.compare(y.family); order != 0) return order < 0;
      if (Less(x.numbers, y.numbers)) return true;
      if (Less(y.numbers, x.numbers)) return false;
      return std::pair(x.difference.a, x.difference.b) < std::pair(y.difference.a, y.difference.b);
    });
    for (const Row& row : rows_) diff_.configs.push_back(row.difference);
  }

  // Pairs configs as changed; the rest was removed or added.
  void PairLones(std::vector<Lone>* a, std::vector<Lone>* b) {
    // First configs that differ only in dtypes, devices, strides and layouts, then only in numbers, then in both.
    Pair(a, b, [](const Lone& lone) { return lone.same_numbers; });
    Pair(a, b, [](const Lone& lone) { return lone.family; });
    Pair(a, b, [](const Lone& lone) { return lone.kind; });
    for (const Lone& lone : *a) {
      rows_.push_back({lone.family, lone.numbers, {Change::kRemoved, lone.symbol, kNone, lone.calls, 0}});
    }
    for (const Lone& lone : *b) {
      rows_.push_back({lone.family, lone.numbers, {Change::kAdded, kNone, lone.symbol, 0, lone.calls}});
    }
  }

  // Pairs the nearest ones of those with the same key, and removes them from both lists.
  template <typename Key>
  void Pair(std::vector<Lone>* a, std::vector<Lone>* b, Key key) {
    std::map<std::string, std::pair<std::vector<Lone>, std::vector<Lone>>> groups;
    for (Lone& lone : *a) groups[key(lone)].first.push_back(std::move(lone));
    for (Lone& lone : *b) groups[key(lone)].second.push_back(std::move(lone));
    a->clear();
    b->clear();
    const auto by_numbers = [](const Lone& x, const Lone& y) { return Less(x.numbers, y.numbers); };
    for (auto& [name, group] : groups) {
      auto& [of_a, of_b] = group;
      std::stable_sort(of_a.begin(), of_a.end(), by_numbers);
      std::stable_sort(of_b.begin(), of_b.end(), by_numbers);
      std::vector<bool> a_paired(of_a.size()), b_paired(of_b.size());
      if (!of_a.empty() && !of_b.empty()) {
        for (const auto& [i, j] : PairNearest(of_a, of_b)) {
          rows_.push_back({of_a[i].family,
                           of_a[i].numbers,
                           {Change::kChanged, of_a[i].symbol, of_b[j].symbol, of_a[i].calls, of_b[j].calls}});
          a_paired[i] = b_paired[j] = true;
        }
      }
      for (size_t i = 0; i < of_a.size(); ++i) {
        if (!a_paired[i]) a->push_back(std::move(of_a[i]));
      }
      for (size_t j = 0; j < of_b.size(); ++j) {
        if (!b_paired[j]) b->push_back(std::move(of_b[j]));
      }
    }
  }

  static std::string NumbersKey(const std::vector<FamilyNumber>& numbers) {
    std::string key;
    for (const FamilyNumber& number : numbers) {
      key.push_back(static_cast<char>(number.symbolic));
      if (number.kind == FamilyNumber::kFloat) {
        AppendDouble(number.real, &key);
      } else {
        AppendVarint(ZigZag(number.integer), &key);
      }
    }
    return key;
  }

  // Identifies a family and sorts by level and API.
  std::string FamilyName(uint32_t symbol, const std::string& key) const {
    const ConfigHead head = configs_.head(symbol);
    std::string name(1, static_cast<char>(head.level));
    name.append(head.api);
    name.push_back('\0');
    return name + key;
  }

  static constexpr uint32_t kNone = CommonConfigs::kLeftOut;
  struct Row {
    std::string family;
    std::vector<FamilyNumber> numbers;
    ConfigDifference difference;
  };

  const CommonConfigs& configs_;
  std::vector<uint64_t> a_calls_;  // by symbol
  std::vector<uint64_t> b_calls_;
  const bool counts_;
  ConfigDiff diff_;
  std::vector<Row> rows_;
};

}  // namespace

absl::StatusOr<ConfigDiff> CompareConfigs(Trace* a, Trace* b, const DiffScope& scope, bool compare_counts,
                                          CommonConfigs* configs) {
  std::vector<uint64_t> a_counts, b_counts;
  const auto count = [](Trace* trace, std::vector<uint64_t>* counts) -> absl::Status {
    absl::StatusOr<std::vector<uint64_t>> counted = trace->Count();
    if (!counted.ok()) return counted.status();
    *counts = *std::move(counted);
    return absl::OkStatus();
  };
  absl::Status counted = DoBoth([&] { return count(a, &a_counts); }, [&] { return count(b, &b_counts); });
  if (!counted.ok()) return counted;
  std::vector<uint64_t> a_calls = CountSymbols(*a, a_counts, scope, configs);
  std::vector<uint64_t> b_calls = CountSymbols(*b, b_counts, scope, configs);
  return ConfigComparison(configs, std::move(a_calls), std::move(b_calls), compare_counts).Run();
}

}  // namespace torchtrace
