#include "serialize/numbers/tensor_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "dialects/torch/numbers/element_type.h"
#include "dialects/torch/numbers/element_values.h"
#include "serialize/model/torch_types.h"
#include "serialize/numbers/tensor_numbers.h"

namespace torchtrace {
namespace {

using torch_dialect::ElementType;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<Tolerances> TolerancesOfFloat(std::string_view dtype) {
  if (dtype == "float32" || dtype == "complex64") return Tolerances{1.3e-6, 1e-5};
  if (dtype == "float64" || dtype == "complex128") return Tolerances{1e-7, 1e-7};
  if (dtype == "float16" || dtype == "complex32") return Tolerances{1e-3, 1e-5};
  if (dtype == "bfloat16") return Tolerances{1.6e-2, 1e-5};
  // A step between neighbours.
  if (dtype.starts_with("float8_e4m3")) return Tolerances{0.125, 0x1p-9};
  if (dtype.starts_with("float8_e5m2")) return Tolerances{0.25, 0x1p-16};
  if (dtype.starts_with("float8")) return Tolerances{0.5, 0};
  if (dtype.starts_with("float")) return Tolerances{0.5, 0};
  return std::nullopt;
}

// The type of the parts, and how many parts an element has.
std::pair<ElementType, size_t> PartsOf(ElementType type) {
  switch (type) {
    case ElementType::kComplex32:
      return {ElementType::kFloat16, 2};
    case ElementType::kComplex64:
      return {ElementType::kFloat32, 2};
    case ElementType::kComplex128:
      return {ElementType::kFloat64, 2};
    default:
      return {type, 1};
  }
}

std::optional<ElementType> ElementTypeOf(std::string_view dtype) {
  constexpr int64_t kNumbers = 64;
  for (int64_t number = 0; number < kNumbers; ++number) {
    if (DtypeOfNumber(number) == dtype) return torch_dialect::ElementTypeOfNumber(number);
  }
  return std::nullopt;
}

double ElementAt(ElementType type, const char* data) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(data);
  switch (type) {
#define TORCHTRACE_ELEMENT(name) \
  case ElementType::name:        \
    return torch_dialect::ValueAt<ElementType::name>(bytes).value;
    TORCHTRACE_ELEMENT(kUint8)
    TORCHTRACE_ELEMENT(kInt8)
    TORCHTRACE_ELEMENT(kInt16)
    TORCHTRACE_ELEMENT(kInt32)
    TORCHTRACE_ELEMENT(kInt64)
    TORCHTRACE_ELEMENT(kUint16)
    TORCHTRACE_ELEMENT(kUint32)
    TORCHTRACE_ELEMENT(kUint64)
    TORCHTRACE_ELEMENT(kBool)
    TORCHTRACE_ELEMENT(kFloat16)
    TORCHTRACE_ELEMENT(kBfloat16)
    TORCHTRACE_ELEMENT(kFloat32)
    TORCHTRACE_ELEMENT(kFloat64)
    TORCHTRACE_ELEMENT(kComplex32)
    TORCHTRACE_ELEMENT(kComplex64)
    TORCHTRACE_ELEMENT(kComplex128)
    TORCHTRACE_ELEMENT(kFloat8E5m2)
    TORCHTRACE_ELEMENT(kFloat8E4m3fn)
    TORCHTRACE_ELEMENT(kFloat8E5m2fnuz)
    TORCHTRACE_ELEMENT(kFloat8E4m3fnuz)
    TORCHTRACE_ELEMENT(kFloat8E8m0fnu)
#undef TORCHTRACE_ELEMENT
  }
  return 0;
}

// How far apart two numbers are, by the largest difference so far.
class Distance {
 public:
  explicit Distance(const Tolerances& tolerances) : tolerances_(tolerances) {}

  // `magnitude`: what the relative tolerance is multiplied by. `scale`: what the difference is shown relative to.
  // `slack`: what the absolute tolerance is multiplied by.
  void Add(double a, double b, double magnitude, double scale, double slack = 1) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return;
    const double apart = std::abs(a - b);
    if (!std::isfinite(apart)) return AddInfinite();
    absolute_ = std::max(absolute_, apart);
    relative_ = std::max(relative_, scale > 0 ? apart / scale : kInfinity);
    if (apart > tolerances_.absolute * slack + tolerances_.relative * magnitude) close_ = false;
  }
  void AddInfinite() {
    relative_ = kInfinity;
    close_ = false;
  }

  double absolute() const { return absolute_; }
  double relative() const { return relative_; }
  bool close() const { return close_; }

 private:
  const Tolerances tolerances_;
  double absolute_ = 0;
  double relative_ = 0;
  bool close_ = true;
};

double Magnitude(const TensorNote::Numbers& numbers) {
  return std::max(std::abs(numbers.least), std::abs(numbers.most));
}

// What differs between elements differs at most as much between extremes, means and norms, so these have the
// tolerances of the elements: mean absolute values are at most the root mean square.
//
// `rounded`: one side was computed with less precision. An extreme near zero may be what large numbers cancelled to, so
// it is held against the largest magnitude.
void AddNumbers(const TensorNote::Numbers& a, const TensorNote::Numbers& b, bool rounded, Distance* distance) {
  if (a.nans != b.nans || a.positive_infinities != b.positive_infinities ||
      a.negative_infinities != b.negative_infinities) {
    distance->AddInfinite();
  }
  if (a.finite == 0 || b.finite == 0) return;
  const double largest = std::max(Magnitude(a), Magnitude(b));
  for (const auto& [x, y] : {std::pair(a.least, b.least), std::pair(a.most, b.most)}) {
    distance->Add(x, y, rounded ? largest : std::max(std::abs(x), std::abs(y)), largest);
  }
  const double norm = std::max(a.norm, b.norm);
  const double root = std::sqrt(static_cast<double>(std::min(a.finite, b.finite)));
  if (!std::isfinite(norm)) return;  // it overflows, as the mean may
  if (std::isfinite(a.mean) && std::isfinite(b.mean)) distance->Add(a.mean, b.mean, norm / root, norm / root);
  distance->Add(a.norm, b.norm, norm, norm, root);
}

uint64_t ElementsOf(const TensorNote::Numbers& numbers) {
  return numbers.nans + numbers.positive_infinities + numbers.negative_infinities + numbers.finite;
}

bool SameShapes(const Value* a, const Value* b) {
  if (a == nullptr || b == nullptr) return true;
  return a->shape == b->shape && (a->tensor_bits & kTensorShapeUnknown) == (b->tensor_bits & kTensorShapeUnknown);
}

// False if the contents aren't elements of known dtypes, as many on both sides.
bool AddElements(std::string_view a, std::string_view a_dtype, std::string_view b, std::string_view b_dtype,
                 Distance* distance, TensorComparison* comparison) {
  const std::optional<ElementType> a_type = ElementTypeOf(a_dtype), b_type = ElementTypeOf(b_dtype);
  if (!a_type.has_value() || !b_type.has_value()) return false;
  const auto [a_part, a_parts] = PartsOf(*a_type);
  const auto [b_part, b_parts] = PartsOf(*b_type);
  const size_t a_bytes = torch_dialect::ElementSize(a_part), b_bytes = torch_dialect::ElementSize(b_part);
  const size_t count = a.size() / a_bytes;
  if (a_parts != b_parts || a.size() % (a_bytes * a_parts) != 0 || b.size() != count * b_bytes) return false;
  double largest = 0;
  const auto read = [&](size_t i) {
    return std::pair(ElementAt(a_part, a.data() + i * a_bytes), ElementAt(b_part, b.data() + i * b_bytes));
  };
  for (size_t i = 0; i < count; ++i) {
    const auto [x, y] = read(i);
    for (const double value : {x, y}) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  comparison->elements = count / a_parts;
  for (size_t i = 0; i < count; i += a_parts) {
    bool equal = true;
    for (size_t part = i; part < i + a_parts; ++part) {
      const auto [x, y] = read(part);
      if (x == y || (std::isnan(x) && std::isnan(y))) continue;
      equal = false;
      distance->Add(x, y, std::max(std::abs(x), std::abs(y)), largest);
    }
    if (!equal) ++comparison->elements_apart;
  }
  return true;
}

}  // namespace

Tolerances TolerancesOf(std::string_view a_dtype, std::string_view b_dtype, const ToleranceOptions& options) {
  Tolerances tolerances = options.least;
  bool exact = true;
  for (const std::string_view dtype : {a_dtype, b_dtype}) {
    const std::optional<Tolerances> of = TolerancesOfFloat(dtype);
    if (!of.has_value()) continue;
    exact = false;
    tolerances.relative = std::max(tolerances.relative, of->relative);
    tolerances.absolute = std::max(tolerances.absolute, of->absolute);
  }
  if (exact) return {};
  return {options.relative.value_or(tolerances.relative), options.absolute.value_or(tolerances.absolute)};
}

TensorComparison CompareTensors(const TensorNote& a, const Value* a_tensor, const TensorNote& b, const Value* b_tensor,
                                const ToleranceOptions& options) {
  TensorComparison comparison;
  const bool known = a_tensor != nullptr && b_tensor != nullptr;
  comparison.other_dtypes = known && a_tensor->text != b_tensor->text;
  comparison.other_devices = known && a_tensor->device != b_tensor->device;
  const std::optional<TensorNote::Numbers> x = NumbersOfNote(a, a_tensor), y = NumbersOfNote(b, b_tensor);
  if (!x.has_value() || !y.has_value()) return comparison;
  if (!comparison.other_dtypes && x->fingerprint == y->fingerprint) {
    comparison.likeness = Likeness::kEqual;
    return comparison;
  }
  if (!SameShapes(a_tensor, b_tensor) || ElementsOf(*x) != ElementsOf(*y)) {
    comparison.other_shapes = true;
    return comparison;
  }
  const Tolerances tolerances =
      TolerancesOf(known ? a_tensor->text : "float32", known ? b_tensor->text : "float32", options);
  Distance distance(tolerances);
  // Where other elements are rounded, each may be far off that is a small difference of large numbers.
  const bool elements = known && !comparison.other_dtypes && a.contents.has_value() && b.contents.has_value() &&
                        AddElements(*a.contents, a_tensor->text, *b.contents, b_tensor->text, &distance, &comparison);
  const bool rounded = comparison.other_dtypes || options.least.relative > 0;
  if (!elements) AddNumbers(*x, *y, rounded, &distance);
  comparison.relative = distance.relative();
  comparison.absolute = distance.absolute();
  // Exact ones differ if their bits do.
  const bool exact = tolerances == Tolerances() && !comparison.other_dtypes;
  comparison.likeness = distance.close() && !exact ? Likeness::kClose : Likeness::kDifferent;
  return comparison;
}

}  // namespace torchtrace
