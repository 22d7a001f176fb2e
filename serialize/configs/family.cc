#include "serialize/configs/family.h"

#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

// No program has this number, and the config that is searched for it has no other ones.
constexpr int64_t kFirstMark = 6'148'914'691'236'000'000;

// Walks a config in the order of its text, collects its numbers and replaces them by placeholders.
class Masker {
 public:
  // Either may be null. `numbered`: the placeholders are kFirstMark and the numbers after it.
  Masker(FamilyMember* member, FamilyNames* names, bool numbered = false)
      : member_(member), names_(names), numbered_(numbered) {}

  void Mask(Config* config) {
    for (size_t i = 0; i < config->args.size(); ++i) {
      if (names_ != nullptr) path_ = absl::StrCat("args[", i, "]");
      Mask(&config->args[i]);
    }
    for (auto& [name, value] : config->kwargs) {
      if (names_ != nullptr) path_ = name;
      Mask(&value);
    }
  }

 private:
  void Mask(Value* value) {
    switch (value->tag) {
      case ValueTag::kInt:
        Add({.kind = FamilyNumber::kInt, .integer = value->integer});
        *value = Placeholder();
        return;
      case ValueTag::kFloat:
        Add({.kind = FamilyNumber::kFloat, .real = value->real});
        *value = Placeholder();
        return;
      case ValueTag::kSymbol:
        if (value->text != "SymInt" && value->text != "SymFloat") return;
        Add({.kind = value->text == "SymInt" ? FamilyNumber::kInt : FamilyNumber::kFloat, .symbolic = true});
        *value = Placeholder();
        return;
      case ValueTag::kTensor:
        if ((value->tensor_bits & kTensorShapeUnknown) != 0) return;
        AddTensor(value->shape.size());
        MaskDims(FamilyNumber::kSize, ".shape", &value->shape);
        if ((value->tensor_bits & kTensorHasStride) != 0) {
          MaskDims(FamilyNumber::kStride, ".stride", &value->strides);
        }
        return;
      case ValueTag::kNdarray:
        return MaskDims(FamilyNumber::kSize, ".shape", &value->shape);
      case ValueTag::kStorage:
        // Only a damaged log has larger ones; leaves them unchanged.
        if (value->whole > INT64_MAX) return;
        Add({.kind = FamilyNumber::kSize, .integer = static_cast<int64_t>(value->whole)}, ".nbytes");
        value->whole = numbered_ ? static_cast<uint64_t>(LastMark()) : kAnyBytes;
        return;
      case ValueTag::kSize:
        return MaskItems(value, FamilyNumber::kSize);
      case ValueTag::kList:
      case ValueTag::kTuple:
      case ValueTag::kSet:
      case ValueTag::kFrozenSet:
      case ValueTag::kSlice:
      case ValueTag::kRange:
        return MaskItems(value, FamilyNumber::kInt);
      case ValueTag::kDict:
        for (size_t i = 0; i + 1 < value->items.size(); i += 2) {
          MaskBelow(names_ == nullptr ? "" : absl::StrCat("[", FormatValue(value->items[i]), "]"),
                    &value->items[i + 1]);
        }
        return;
      default:
        return;
    }
  }

  // `ints`: the kind of the ints among the items.
  void MaskItems(Value* value, FamilyNumber::Kind ints) {
    for (size_t i = 0; i < value->items.size(); ++i) {
      int_kind_ = ints;
      MaskBelow(names_ == nullptr ? "" : absl::StrCat("[", i, "]"), &value->items[i]);
    }
    int_kind_ = FamilyNumber::kInt;
  }

  void MaskBelow(const std::string& step, Value* value) {
    const size_t length = path_.size();
    path_ += step;
    Mask(value);
    path_.resize(length);
  }

  void MaskDims(FamilyNumber::Kind kind, const char* name, std::vector<Dim>* dims) {
    for (size_t i = 0; i < dims->size(); ++i) {
      Dim& dim = (*dims)[i];
      const bool known = dim.has_value() && *dim != kAnySize;
      Add({.kind = kind, .symbolic = !known, .integer = known ? *dim : 0},
          names_ == nullptr ? "" : absl::StrCat(name, "[", i, "]"));
      dim = numbered_ ? LastMark() : kAnySize;
    }
  }

  // Of the number that was added last.
  int64_t LastMark() const { return kFirstMark + static_cast<int64_t>(count_) - 1; }
  Value Placeholder() const {
    if (!numbered_) return AnyValue();
    Value value;
    value.tag = ValueTag::kInt;
    value.integer = LastMark();
    return value;
  }

  void Add(FamilyNumber number, const std::string& step = "") {
    if (number.kind == FamilyNumber::kInt) number.kind = int_kind_;
    if (member_ != nullptr) member_->numbers.push_back(number);
    if (names_ != nullptr) names_->numbers.push_back(path_ + step);
    ++count_;
  }

  void AddTensor(size_t rank) {
    if (member_ != nullptr) member_->tensors.push_back({count_, rank});
    if (names_ != nullptr) names_->tensors.push_back(path_);
  }

  FamilyMember* const member_;
  FamilyNames* const names_;
  const bool numbered_;
  FamilyNumber::Kind int_kind_ = FamilyNumber::kInt;
  size_t count_ = 0;
  std::string path_;
};

}  // namespace

bool FamilyNumber::operator==(const FamilyNumber& other) const {
  return kind == other.kind && symbolic == other.symbolic && integer == other.integer &&
         std::bit_cast<uint64_t>(real) == std::bit_cast<uint64_t>(other.real);
}

FamilyMember FindFamily(const Config& config) {
  FamilyMember member;
  Config masked = config;
  Masker(&member, nullptr).Mask(&masked);
  member.key = EncodeConfig(masked);
  return member;
}

std::string FormatFamily(const Config& member) {
  Config masked = member;
  Masker(nullptr, nullptr).Mask(&masked);
  return FormatConfig(masked);
}

std::string FormatFamily(const Config& member, const std::vector<std::string>& numbers) {
  Config masked = member;
  Masker(nullptr, nullptr, /*numbered=*/true).Mask(&masked);
  const std::string marked = FormatConfig(masked);
  std::string text;
  size_t begin = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const std::string mark = std::to_string(kFirstMark + static_cast<int64_t>(i));
    const size_t at = marked.find(mark, begin);
    if (at == std::string::npos) continue;
    text.append(marked, begin, at - begin).append(numbers[i]);
    begin = at + mark.size();
  }
  return text.append(marked, begin);
}

FamilyNames NameFamily(const Config& member) {
  FamilyNames names;
  Config masked = member;
  Masker(nullptr, &names).Mask(&masked);
  return names;
}

}  // namespace torchtrace
