#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "serialize/configs/family.h"
#include "serialize/diff/config_diff.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

// A common change is in at least so many configs; at most so many of one kind are reported.
constexpr size_t kFewestConfigs = 2;
constexpr size_t kMostOfAKind = 3;
// The limit for the lesser number in a ratio of calls.
constexpr int64_t kMostInFactor = 3;

using Size = std::pair<int64_t, int64_t>;  // before, after
using Texts = std::pair<std::string, std::string>;

// The differences of a changed config.
struct Differences {
  std::set<Size> sizes;    // of tensors, and ints that may be sizes
  std::set<Texts> values;  // other numbers
  std::set<Texts> dtypes;
  std::set<Texts> devices;
  bool other = false;  // layouts, or strides that only one of them has
  // For each tensor of more than one dimension, its changed sizes, and whether only the first size changed.
  std::vector<std::pair<std::set<Size>, bool>> tensors;
};

// Whether `change` is `by`, or `by` times a common factor.
bool Explains(const Size& by, const Size& change) {
  if (by == change) return true;
  return by.first > 0 && change.first > by.first && change.first % by.first == 0 &&
         change.first / by.first * by.second == change.second;
}

std::string NumberText(const FamilyNumber& number) {
  return number.kind == FamilyNumber::kFloat ? FormatFloat(number.real) : std::to_string(number.integer);
}

void CompareNames(const Value& a, const Value& b, Differences* differences) {
  const auto compare = [](const std::string& before, const std::string& after, std::set<Texts>* into) {
    if (before != after) into->emplace(before, after);
  };
  switch (a.tag) {
    case ValueTag::kTensor:
      compare(a.device, b.device, &differences->devices);
      if (a.layout != b.layout || a.tensor_bits != b.tensor_bits) differences->other = true;
      [[fallthrough]];
    case ValueTag::kNdarray:
    case ValueTag::kNumpyScalar:
    case ValueTag::kDtype:
      compare(a.text, b.text, &differences->dtypes);
      break;
    // A string may name a device; otherwise strings of a pair don't differ.
    case ValueTag::kString:
    case ValueTag::kDevice:
    case ValueTag::kGenerator:
    case ValueTag::kStorage:
      compare(a.text, b.text, &differences->devices);
      break;
    case ValueTag::kLayout:
    case ValueTag::kMemoryFormat:
      if (a.text != b.text) differences->other = true;
      break;
    default:
      break;
  }
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    CompareNames(a.items[i], b.items[i], differences);
  }
}

void CompareNumbers(const FamilyMember& a, const FamilyMember& b, Differences* differences) {
  for (size_t i = 0; i < std::min(a.numbers.size(), b.numbers.size()); ++i) {
    const FamilyNumber &before = a.numbers[i], &after = b.numbers[i];
    // Strides follow from sizes.
    if (before == after || before.kind == FamilyNumber::kStride) continue;
    const bool whole = before.kind != FamilyNumber::kFloat && after.kind != FamilyNumber::kFloat;
    if (whole && !before.symbolic && !after.symbolic) {
      differences->sizes.emplace(before.integer, after.integer);
    } else {
      differences->values.emplace(NumberText(before), NumberText(after));
    }
  }
  for (const FamilyTensor& tensor : a.tensors) {
    std::set<Size> sizes;
    size_t last = 0;
    for (size_t i = 0; i < tensor.rank; ++i) {
      const FamilyNumber &before = a.numbers[tensor.first + i], &after = b.numbers[tensor.first + i];
      if (before == after) continue;
      sizes.emplace(before.integer, after.integer);
      last = i;
    }
    if (tensor.rank > 1 && !sizes.empty()) differences->tensors.emplace_back(std::move(sizes), last == 0);
  }
}

class Summary {
 public:
  Summary(const ConfigDiff& diff, const CommonConfigs& configs) : diff_(diff), configs_(configs) {}

  ChangeSummary Run() {
    for (const ConfigDifference& row : diff_.configs) rows_.push_back(DifferencesOf(row));
    FindSizes();
    FindNames(CommonChange::kDtype, &Differences::dtypes);
    FindNames(CommonChange::kDevice, &Differences::devices);
    FindNames(CommonChange::kValue, &Differences::values);
    FindCalls();
    for (size_t i = 0; i < rows_.size(); ++i) summary_.explains_config.push_back(IsExplained(i));
    for (const ApiDifference& api : diff_.apis) {
      summary_.explains_api.push_back(api.change == Change::kCount &&
                                      factors_.contains(Factor(api.a_calls, api.b_calls)));
    }
    return std::move(summary_);
  }

 private:
  Differences DifferencesOf(const ConfigDifference& row) const {
    Differences differences;
    if (row.change != Change::kChanged) return differences;
    const Config a = ReadableConfig(configs_.identity(row.a)), b = ReadableConfig(configs_.identity(row.b));
    for (size_t i = 0; i < std::min(a.args.size(), b.args.size()); ++i) {
      CompareNames(a.args[i], b.args[i], &differences);
    }
    for (size_t i = 0; i < std::min(a.kwargs.size(), b.kwargs.size()); ++i) {
      CompareNames(a.kwargs[i].second, b.kwargs[i].second, &differences);
    }
    const FamilyMember a_member = FindFamily(a), b_member = FindFamily(b);
    if (a_member.numbers.size() == b_member.numbers.size()) CompareNumbers(a_member, b_member, &differences);
    return differences;
  }

  std::string_view ApiOf(size_t row) const {
    const ConfigDifference& config = diff_.configs[row];
    return configs_.head(config.a != CommonConfigs::kLeftOut ? config.a : config.b).api;
  }

  // The most frequent change explains itself and its multiples; repeats this with the rest.
  void FindSizes() {
    std::map<Size, std::set<size_t>> left;  // rows, by change that is not explained yet
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (const Size& size : rows_[i].sizes) left[size].insert(i);
    }
    size_t told = 0;
    while (told < kMostOfAKind && !left.empty()) {
      const auto most = std::max_element(
          left.begin(), left.end(), [](const auto& x, const auto& y) { return x.second.size() < y.second.size(); });
      const Size by = most->first;
      std::set<size_t> rows;
      std::vector<CommonChange::Multiple> multiples;
      std::vector<Size> explained;
      for (const auto& [size, of] : left) {
        if (!Explains(by, size)) continue;
        rows.insert(of.begin(), of.end());
        explained.push_back(size);
        if (size != by) multiples.push_back({std::to_string(size.first), std::to_string(size.second), of.size()});
      }
      if (rows.size() < kFewestConfigs) break;
      for (const Size& size : explained) left.erase(size);
      explained_sizes_.insert(explained.begin(), explained.end());
      std::stable_sort(multiples.begin(), multiples.end(),
                       [](const auto& x, const auto& y) { return x.configs > y.configs; });
      const bool batch = told == 0 && IsFirstOfMost(rows, by);
      Tell(batch ? CommonChange::kBatch : CommonChange::kSize, {std::to_string(by.first), std::to_string(by.second)},
           rows, std::move(multiples));
      ++told;
    }
  }

  // Whether, in most tensors with this change, only the first size changed.
  bool IsFirstOfMost(const std::set<size_t>& rows, const Size& by) const {
    size_t first = 0, all = 0;
    for (const size_t row : rows) {
      for (const auto& [sizes, only_first] : rows_[row].tensors) {
        if (std::none_of(sizes.begin(), sizes.end(), [&](const Size& size) { return Explains(by, size); })) continue;
        ++all;
        if (only_first) ++first;
      }
    }
    return 2 * first > all;
  }

  void FindNames(CommonChange::Kind kind, std::set<Texts> Differences::* member) {
    std::map<Texts, std::set<size_t>> rows;
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (const Texts& texts : rows_[i].*member) rows[texts].insert(i);
    }
    for (const Texts& texts : MostFrequent(rows)) {
      Tell(kind, texts, rows.at(texts));
      explained_texts_.emplace(kind, texts);
    }
  }

  void FindCalls() {
    std::map<Size, std::set<size_t>> rows;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const ConfigDifference& row = diff_.configs[i];
      if (row.a_calls == 0 || row.b_calls == 0 || row.a_calls == row.b_calls) continue;
      // A ratio like 13/7 says little.
      const Size factor = Factor(row.a_calls, row.b_calls);
      if (std::min(factor.first, factor.second) <= kMostInFactor) rows[factor].insert(i);
    }
    for (const Size& factor : MostFrequent(rows)) {
      Tell(CommonChange::kCalls, {std::to_string(factor.first), std::to_string(factor.second)}, rows.at(factor));
      factors_.insert(factor);
    }
  }

  // The changes in at least kFewestConfigs configs, the most frequent first.
  template <typename Key>
  static std::vector<Key> MostFrequent(const std::map<Key, std::set<size_t>>& rows) {
    std::vector<std::pair<size_t, const Key*>> found;
    for (const auto& [key, of] : rows) {
      if (of.size() >= kFewestConfigs) found.emplace_back(of.size(), &key);
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    if (found.size() > kMostOfAKind) found.resize(kMostOfAKind);
    std::vector<Key> keys;
    for (const auto& [count, key] : found) keys.push_back(*key);
    return keys;
  }

  static Size Factor(uint64_t a, uint64_t b) {
    const uint64_t common = std::gcd(a, b);
    return {static_cast<int64_t>(a / common), static_cast<int64_t>(b / common)};
  }

  void Tell(CommonChange::Kind kind, const Texts& texts, const std::set<size_t>& rows,
            std::vector<CommonChange::Multiple> multiples = {}) {
    std::set<std::string_view> apis;
    for (const size_t row : rows) apis.insert(ApiOf(row));
    summary_.changes.push_back({kind, texts.first, texts.second, rows.size(), apis.size(), std::move(multiples)});
  }

  bool IsExplained(size_t i) const {
    const ConfigDifference& row = diff_.configs[i];
    if (row.change == Change::kRemoved || row.change == Change::kAdded) return false;
    if (row.a_calls != row.b_calls && !factors_.contains(Factor(row.a_calls, row.b_calls))) return false;
    if (row.change == Change::kCount) return true;
    const Differences& differences = rows_[i];
    const auto told = [this](CommonChange::Kind kind, const std::set<Texts>& all) {
      return std::all_of(all.begin(), all.end(),
                         [&](const Texts& texts) { return explained_texts_.contains({kind, texts}); });
    };
    if (differences.other) return false;
    const bool any = !differences.sizes.empty() || !differences.dtypes.empty() || !differences.devices.empty() ||
                     !differences.values.empty();
    return any &&
           std::all_of(differences.sizes.begin(), differences.sizes.end(),
                       [this](const Size& size) { return explained_sizes_.contains(size); }) &&
           told(CommonChange::kDtype, differences.dtypes) && told(CommonChange::kDevice, differences.devices) &&
           told(CommonChange::kValue, differences.values);
  }

  const ConfigDiff& diff_;
  const CommonConfigs& configs_;
  std::vector<Differences> rows_;  // by row of diff_.configs
  std::set<Size> explained_sizes_;
  std::set<std::pair<CommonChange::Kind, Texts>> explained_texts_;
  std::set<Size> factors_;  // ratios of numbers of calls
  ChangeSummary summary_;
};

}  // namespace

ChangeSummary SummarizeChanges(const ConfigDiff& diff, const CommonConfigs& configs) {
  return Summary(diff, configs).Run();
}

}  // namespace torchtrace
