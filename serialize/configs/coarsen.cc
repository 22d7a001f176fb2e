#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/base/matching.h"
#include "serialize/configs/dedup.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_types.h"
#include "serialize/model/unknown_arguments.h"
#include "serialize/model/value.h"

namespace torchtrace {
namespace {

enum Part : unsigned {
  kDevice = 1 << 0,
  kStride = 1 << 1,
  kLayout = 1 << 2,
  kDtype = 1 << 3,
  kShape = 1 << 4,
  kScalars = 1 << 5,
  kStrings = 1 << 6,
  kLevel = 1 << 7,
};

class Forgetter {
 public:
  explicit Forgetter(unsigned parts) : parts_(parts) {}

  void Forget(Value* value) const {
    switch (value->tag) {
      case ValueTag::kFalse:
      case ValueTag::kTrue:
      case ValueTag::kInt:
      case ValueTag::kBigInt:
      case ValueTag::kFloat:
      case ValueTag::kComplex:
      case ValueTag::kSymbol:  // a symbolic number, or already a placeholder
        if (Has(kScalars)) *value = AnyValue();
        return;
      case ValueTag::kNumpyScalar:
        if (Has(kScalars)) {
          *value = AnyValue();
        } else if (Has(kDtype)) {
          value->text = kAnyName;
        }
        return;
      case ValueTag::kString:
        if (Has(kStrings) || (Has(kDevice) && IsDeviceName(value->text))) *value = AnyValue();
        return;
      case ValueTag::kBytes:
        if (Has(kStrings)) *value = AnyValue();
        return;
      case ValueTag::kDtype:
        if (Has(kDtype)) *value = AnyValue();
        return;
      case ValueTag::kDevice:
        if (Has(kDevice)) *value = AnyValue();
        return;
      case ValueTag::kLayout:
      case ValueTag::kMemoryFormat:
        if (Has(kLayout)) *value = AnyValue();
        return;
      case ValueTag::kGenerator:
        if (Has(kDevice)) value->text = kAnyName;
        return;
      case ValueTag::kStorage:
        if (Has(kDevice)) value->text = kAnyName;
        if (Has(kShape)) value->whole = kAnyBytes;
        return;
      case ValueTag::kNdarray:
        if (Has(kShape)) ForgetDims(&value->shape);
        if (Has(kDtype)) value->text = kAnyName;
        return;
      case ValueTag::kTensor:
        return ForgetTensor(value);
      case ValueTag::kSize:
        for (Value& size : value->items) {
          if (Has(kShape)) size = AnyValue();
          Forget(&size);
        }
        return;
      case ValueTag::kDict:
        for (size_t i = 1; i < value->items.size(); i += 2) Forget(&value->items[i]);
        return;
      case ValueTag::kList:
      case ValueTag::kTuple:
      case ValueTag::kSlice:
      case ValueTag::kRange:
      case ValueTag::kSet:
      case ValueTag::kFrozenSet:
        for (Value& item : value->items) Forget(&item);
        return;
      case ValueTag::kNone:
      case ValueTag::kEllipsis:
      case ValueTag::kUndefined:
      case ValueTag::kFunction:
      case ValueTag::kType:
      case ValueTag::kObject:
      case ValueTag::kDeep:
        return;
    }
  }

  // The value of a keyword.
  void ForgetNamed(std::string_view name, Value* value) const {
    if (Has(kDevice) && (name == "device" || name == "place")) {
      // A string, an index, a device, or None for the default.
      switch (value->tag) {
        case ValueTag::kString:
        case ValueTag::kInt:
        case ValueTag::kDevice:
        case ValueTag::kNone:
          *value = AnyValue();
          return;
        default:
          break;
      }
    }
    Forget(value);
  }

 private:
  bool Has(Part part) const { return (parts_ & part) != 0; }

  static void ForgetDims(std::vector<Dim>* dims) { std::fill(dims->begin(), dims->end(), Dim(kAnySize)); }

  void ForgetTensor(Value* tensor) const {
    const bool shaped = (tensor->tensor_bits & kTensorShapeUnknown) == 0;
    if (Has(kShape)) {
      ForgetDims(&tensor->shape);
      ForgetDims(&tensor->strides);
    }
    // A tensor without dimensions is always contiguous.
    if (Has(kStride) && shaped && !tensor->shape.empty()) {
      tensor->tensor_bits |= kTensorHasStride;
      tensor->strides.assign(tensor->shape.size(), Dim(kAnySize));
    }
    if (Has(kDtype)) tensor->text = kAnyName;
    if (Has(kDevice)) tensor->device = kAnyName;
    if (Has(kLayout)) {
      tensor->tensor_bits |= kTensorHasLayout;
      tensor->layout = kAnyName;
    }
  }

  const unsigned parts_;
};

}  // namespace

const std::vector<std::string>& Coarsening::Names() {
  // In the order of the bits.
  static const std::vector<std::string> names = {"device", "stride",  "layout",  "dtype",
                                                 "shape",  "scalars", "strings", "level"};
  return names;
}

absl::StatusOr<Coarsening> Coarsening::Parse(const std::vector<std::string>& names) {
  Coarsening coarsening;
  for (const std::string& name : names) {
    const auto at = std::find(Names().begin(), Names().end(), name);
    if (at == Names().end()) {
      const std::string hint = DidYouMean(name, Names());
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' can't be ignored", hint.empty() ? ";" : hint, " there are ", Choices()));
    }
    coarsening.parts_ |= 1U << static_cast<unsigned>(at - Names().begin());
  }
  return coarsening;
}

std::string Coarsening::Choices() { return absl::StrJoin(Names(), ", "); }

Config Coarsening::Apply(Config config) const {
  if (empty()) return config;
  const Forgetter forgetter(parts_);
  if (!HasUnknownArguments(config)) {
    for (Value& arg : config.args) forgetter.Forget(&arg);
  }
  for (auto& [name, value] : config.kwargs) forgetter.ForgetNamed(name, &value);
  if ((parts_ & kLevel) != 0) config.level = kAnyLevel;
  // Placeholders don't belong to a framework.
  if (!HasFrameworkValue(config)) config.other_framework.clear();
  return config;
}

std::string Coarsening::Apply(std::string_view identity) const {
  if (empty()) return std::string(identity);
  absl::StatusOr<Config> config = ParseConfig(identity);
  if (!config.ok()) return std::string(identity);
  return EncodeConfig(Apply(*std::move(config)));
}

}  // namespace torchtrace
