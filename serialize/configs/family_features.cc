#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "serialize/configs/family.h"

namespace torchtrace {
namespace {

// Only pairs within so many sizes and tensors count: calls with hundreds of tensors (foreach operators) would have
// too many pairs.
constexpr size_t kSizesBack = 16;
constexpr size_t kTensorsBack = 4;

// The values of kValue. kAligned + n: 0 odd, 1 divisible by 2 and not by 4, ... 7 by 128.
enum ValueClass : uint8_t {
  kSymbolic,
  kZero,
  kOne,
  kMinusOne,
  kNan,
  kInfinite,
  kWhole,
  kFraction,
  kAligned,
};
constexpr int kMaxAlignment = 7;

enum BroadcastClass : uint8_t { kSameShape, kFirstStretched, kSecondStretched, kBothStretched, kNoBroadcast };

// Exact for every int64 and double.
using Exact = long double;

bool IsComparable(const FamilyNumber& number) {
  return !number.symbolic && (number.kind != FamilyNumber::kFloat || std::isfinite(number.real));
}
Exact ExactValue(const FamilyNumber& number) {
  return number.kind == FamilyNumber::kFloat ? Exact(number.real) : Exact(number.integer);
}
// A logarithmic scale on both sides of zero.
double LogScale(Exact value) {
  const double magnitude = std::log2(1 + static_cast<double>(std::fabs(value)));
  return value < 0 ? -magnitude : magnitude;
}

struct Range {
  bool any = false;
  Exact least = 0;
  Exact greatest = 0;
};

class Collector {
 public:
  explicit Collector(const std::vector<FamilyMember>& members) : members_(members) {
    ranges_.resize(members.front().numbers.size());
    for (const FamilyMember& member : members) {
      for (size_t i = 0; i < ranges_.size(); ++i) {
        const FamilyNumber& number = member.numbers[i];
        if (!IsComparable(number)) continue;
        Range& range = ranges_[i];
        const Exact value = ExactValue(number);
        range.least = range.any ? std::min(range.least, value) : value;
        range.greatest = range.any ? std::max(range.greatest, value) : value;
        range.any = true;
      }
    }
  }

  FamilyFeatures Collect() {
    result_.of.reserve(members_.size());
    for (const FamilyMember& member : members_) {
      result_.of.emplace_back();
      for (size_t i = 0; i < member.numbers.size(); ++i) AddNumber(static_cast<uint32_t>(i), member.numbers[i]);
      AddEqualSizes(member);
      AddBroadcasts(member);
    }
    DropCommon();
    return std::move(result_);
  }

 private:
  void Add(Feature::Kind kind, uint32_t a, uint32_t b, uint8_t value) {
    const Feature feature{kind, value, a, b};
    const auto [at, fresh] = ids_.try_emplace(feature, static_cast<uint32_t>(result_.features.size()));
    if (fresh) result_.features.push_back(feature);
    result_.of.back().push_back(at->second);
  }

  void AddNumber(uint32_t i, const FamilyNumber& number) {
    Add(Feature::kKind, i, 0, number.kind);
    if (number.symbolic) return Add(Feature::kValue, i, 0, kSymbolic);
    if (number.kind == FamilyNumber::kFloat) {
      AddFloat(i, number.real);
    } else {
      AddInteger(i, number.integer);
    }
    const Range& range = ranges_[i];
    if (!IsComparable(number) || range.least == range.greatest) return;
    const Exact value = ExactValue(number);
    if (value == range.least) Add(Feature::kExtreme, i, 0, 0);
    if (value == range.greatest) Add(Feature::kExtreme, i, 0, 1);
    const double from = LogScale(range.least);
    const double share = (LogScale(value) - from) / (LogScale(range.greatest) - from);
    // Two large numbers may have the same place on the scale: the share is then not a number.
    const int quarter = share >= 0 && share <= 1 ? std::min(3, static_cast<int>(4 * share)) : 0;
    Add(Feature::kQuarter, i, 0, static_cast<uint8_t>(quarter));
  }

  void AddInteger(uint32_t i, int64_t value) {
    if (value < 0) Add(Feature::kSign, i, 0, 1);
    if (value == 0) return Add(Feature::kValue, i, 0, kZero);
    if (value == 1) return Add(Feature::kValue, i, 0, kOne);
    if (value == -1) return Add(Feature::kValue, i, 0, kMinusOne);
    const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const int alignment = std::min(kMaxAlignment, std::countr_zero(magnitude));
    Add(Feature::kValue, i, 0, static_cast<uint8_t>(kAligned + alignment));
    Add(Feature::kPower, i, 0, std::has_single_bit(magnitude) ? 1 : 0);
  }

  void AddFloat(uint32_t i, double value) {
    if (std::isnan(value)) return Add(Feature::kValue, i, 0, kNan);
    if (std::signbit(value)) Add(Feature::kSign, i, 0, 1);
    Add(Feature::kValue, i, 0,
        std::isinf(value)            ? kInfinite
        : value == 0                 ? kZero
        : value == 1                 ? kOne
        : value == -1                ? kMinusOne
        : value == std::trunc(value) ? kWhole
                                     : kFraction);
  }

  void AddEqualSizes(const FamilyMember& member) {
    sizes_.clear();
    for (size_t i = 0; i < member.numbers.size(); ++i) {
      if (member.numbers[i].kind == FamilyNumber::kSize) sizes_.push_back(static_cast<uint32_t>(i));
    }
    for (size_t j = 1; j < sizes_.size(); ++j) {
      const FamilyNumber& b = member.numbers[sizes_[j]];
      for (size_t i = j > kSizesBack ? j - kSizesBack : 0; i < j; ++i) {
        const FamilyNumber& a = member.numbers[sizes_[i]];
        if (!a.symbolic && !b.symbolic) Add(Feature::kEqual, sizes_[i], sizes_[j], a.integer == b.integer ? 1 : 0);
      }
    }
  }

  void AddBroadcasts(const FamilyMember& member) {
    const std::vector<FamilyTensor>& tensors = member.tensors;
    for (size_t j = 1; j < tensors.size(); ++j) {
      for (size_t i = j > kTensorsBack ? j - kTensorsBack : 0; i < j; ++i) {
        AddBroadcast(member, static_cast<uint32_t>(i), static_cast<uint32_t>(j));
      }
    }
  }

  void AddBroadcast(const FamilyMember& member, uint32_t first, uint32_t second) {
    const FamilyTensor& a = member.tensors[first];
    const FamilyTensor& b = member.tensors[second];
    bool a_stretched = a.rank < b.rank;
    bool b_stretched = b.rank < a.rank;
    for (size_t back = 1; back <= std::min(a.rank, b.rank); ++back) {
      const FamilyNumber& x = member.numbers[a.first + a.rank - back];
      const FamilyNumber& y = member.numbers[b.first + b.rank - back];
      if (x.symbolic || y.symbolic) return;
      if (x.integer == y.integer) continue;
      if (x.integer != 1 && y.integer != 1) return Add(Feature::kBroadcast, first, second, kNoBroadcast);
      (x.integer == 1 ? a_stretched : b_stretched) = true;
    }
    Add(Feature::kBroadcast, first, second,
        a_stretched && b_stretched ? kBothStretched
        : a_stretched              ? kFirstStretched
        : b_stretched              ? kSecondStretched
                                   : kSameShape);
  }

  // Features that all members have distinguish none.
  void DropCommon() {
    std::vector<size_t> members_with(result_.features.size());
    for (const std::vector<uint32_t>& features : result_.of) {
      for (const uint32_t feature : features) ++members_with[feature];
    }
    std::vector<uint32_t> number(result_.features.size());
    std::vector<Feature> kept;
    for (size_t i = 0; i < number.size(); ++i) {
      number[i] = static_cast<uint32_t>(kept.size());
      if (members_with[i] < members_.size()) kept.push_back(result_.features[i]);
    }
    for (std::vector<uint32_t>& features : result_.of) {
      std::erase_if(features, [&](uint32_t feature) { return members_with[feature] == members_.size(); });
      for (uint32_t& feature : features) feature = number[feature];
      std::sort(features.begin(), features.end());
      features.shrink_to_fit();
    }
    result_.features = std::move(kept);
  }

  const std::vector<FamilyMember>& members_;
  std::vector<Range> ranges_;
  FamilyFeatures result_;
  absl::flat_hash_map<Feature, uint32_t> ids_;
  std::vector<uint32_t> sizes_;  // scratch
};

std::string DescribeValue(uint8_t value) {
  switch (value) {
    case kSymbolic:
      return "symbolic";
    case kZero:
      return "0";
    case kOne:
      return "1";
    case kMinusOne:
      return "-1";
    case kNan:
      return "nan";
    case kInfinite:
      return "infinite";
    case kWhole:
      return "whole";
    case kFraction:
      return "fraction";
    case kAligned:
      return "odd";
    default:
      return absl::StrCat("multiple of ", 1 << (value - kAligned));
  }
}

const char* DescribeKind(uint8_t kind) {
  switch (kind) {
    case FamilyNumber::kSize:
      return "size";
    case FamilyNumber::kStride:
      return "stride";
    case FamilyNumber::kInt:
      return "int";
    default:
      return "float";
  }
}

const char* DescribeBroadcast(uint8_t value) {
  switch (value) {
    case kSameShape:
      return "same shape";
    case kFirstStretched:
      return "the first is broadcast";
    case kSecondStretched:
      return "the second is broadcast";
    case kBothStretched:
      return "both are broadcast";
    default:
      return "no broadcast";
  }
}

}  // namespace

FamilyFeatures FindFeatures(const std::vector<FamilyMember>& members) {
  if (members.empty()) return {};
  return Collector(members).Collect();
}

std::string DescribeFeature(const Feature& feature, const FamilyNames& names) {
  const auto number = [&names](uint32_t i) -> const std::string& { return names.numbers[i]; };
  switch (feature.kind) {
    case Feature::kValue:
      return absl::StrCat(number(feature.a), ": ", DescribeValue(feature.value));
    case Feature::kSign:
      return absl::StrCat(number(feature.a), ": negative");
    case Feature::kPower:
      return absl::StrCat(number(feature.a), feature.value != 0 ? ": power of two" : ": no power of two");
    case Feature::kKind:
      return absl::StrCat(number(feature.a), ": ", DescribeKind(feature.value));
    case Feature::kExtreme:
      return absl::StrCat(number(feature.a), feature.value != 0 ? ": maximum" : ": minimum");
    case Feature::kQuarter:
      return absl::StrCat(number(feature.a), ": quarter ", feature.value + 1, " of the range");
    case Feature::kEqual:
      return absl::StrCat(number(feature.a), feature.value != 0 ? " == " : " != ", number(feature.b));
    case Feature::kBroadcast:
      return absl::StrCat(names.tensors[feature.a], ", ", names.tensors[feature.b], ": ",
                          DescribeBroadcast(feature.value));
  }
  return "";
}

}  // namespace torchtrace
