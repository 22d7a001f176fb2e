#include "serialize/import/named_sizes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/forms/forms.h"
#include "serialize/model/torch_names.h"
#include "serialize/model/torch_types.h"

namespace torchtrace {
namespace {

bool IsList(const Value& value) { return value.tag == ValueTag::kList || value.tag == ValueTag::kTuple; }

// Whether the value is a number or a list of numbers.
bool IsNumeric(const Value& value) {
  switch (value.tag) {
    case ValueTag::kInt:
    case ValueTag::kFloat:
    case ValueTag::kTrue:
    case ValueTag::kFalse:
    case ValueTag::kNone:
      return true;
    default:
      return IsList(value) && value.whole == value.items.size() &&
             std::all_of(value.items.begin(), value.items.end(), IsNumeric);
  }
}

// Turns '192' into 192 and '((512, 1), (1, 512))' into a tuple of tuples; other texts stay. Whether anything changed.
bool ReadNumbers(Value* value) {
  if (IsList(*value)) {
    bool changed = false;
    for (Value& item : value->items) changed |= ReadNumbers(&item);
    return changed;
  }
  if (value->tag != ValueTag::kString) return false;
  absl::StatusOr<Value> number = ParseValueText(value->text);
  if (!number.ok() || !IsNumeric(*number)) return false;
  *value = *std::move(number);
  return true;
}

std::optional<std::vector<Dim>> DimsOf(const Value& value) {
  if (!IsList(value)) return std::nullopt;
  std::vector<Dim> dims;
  for (const Value& item : value.items) {
    if (item.tag != ValueTag::kInt || item.integer < 0) return std::nullopt;
    dims.emplace_back(item.integer);
  }
  return dims;
}

std::string DtypeOf(const Value* value) {
  if (value == nullptr || value->tag != ValueTag::kString) return "unknown";
  if (value->text == "tf32") return "float32";
  if (const std::string_view meant = DtypeMeantBy(value->text); meant != value->text) return std::string(meant);
  const std::string_view dtype = DtypeOfAbbreviation(value->text);
  if (!dtype.empty()) return std::string(dtype);
  constexpr std::string_view kTorch = "torch.";
  return value->text.starts_with(kTorch) ? value->text.substr(kTorch.size()) : "unknown";
}

// The keyword arguments of a config, each taken once.
class Sizes {
 public:
  explicit Sizes(const Config& config) : config_(config) {}

  const Value* Take(std::string_view name) {
    for (const auto& [keyword, value] : config_.kwargs) {
      if (keyword != name) continue;
      ++taken_;
      return &value;
    }
    return nullptr;
  }
  std::optional<Dim> TakeSize(std::string_view name) {
    const Value* const value = Take(name);
    return value != nullptr && value->tag == ValueTag::kInt && value->integer >= 0 ? std::optional(Dim(value->integer))
                                                                                   : std::nullopt;
  }
  bool AllTaken() const { return taken_ == config_.kwargs.size(); }

 private:
  const Config& config_;
  size_t taken_ = 0;
};

// None: the strides don't fit the shape.
std::optional<Value> Tensor(std::vector<Dim> shape, const std::string& dtype, const Value* strides) {
  Value tensor;
  tensor.tag = ValueTag::kTensor;
  tensor.text = dtype;
  tensor.device = "cpu";
  tensor.shape = std::move(shape);
  if (strides == nullptr) return tensor;
  std::optional<std::vector<Dim>> steps = DimsOf(*strides);
  if (!steps.has_value() || steps->size() != tensor.shape.size()) return std::nullopt;
  if (!IsContiguous(tensor.shape, *steps)) {
    tensor.tensor_bits = kTensorHasStride;
    tensor.strides = *std::move(steps);
  }
  return tensor;
}

// gemm, fp8_gemm, addmm: [M, K] by [K, N], for addmm after the tensor that is added.
std::optional<std::vector<Value>> Product(const Config& config, bool adds) {
  Sizes sizes(config);
  const std::optional<Dim> m = sizes.TakeSize("M"), n = sizes.TakeSize("N"), k = sizes.TakeSize("K");
  const std::string dtype = DtypeOf(sizes.Take("dtype"));
  const Value* const bias = adds ? sizes.Take("bias") : nullptr;
  const Value* const strides = sizes.Take("strides");
  if (!m || !n || !k || !sizes.AllTaken() || (strides != nullptr && !IsList(*strides))) return std::nullopt;
  const size_t given = strides == nullptr ? 0 : strides->items.size();
  if (strides != nullptr && given != 2 && (given != 3 || !adds)) return std::nullopt;
  const auto stride = [&](size_t from_last) { return given == 0 ? nullptr : &strides->items[given - from_last]; };
  std::vector<std::optional<Value>> tensors;
  if (adds) {
    const Value* const own = given == 3 ? stride(3) : nullptr;
    if (bias != nullptr) {
      const std::optional<std::vector<Dim>> shape = DimsOf(*bias);
      if (!shape.has_value()) return std::nullopt;
      tensors.push_back(Tensor(*shape, dtype, own));
    } else if (own != nullptr) {
      tensors.push_back(Tensor({*m, *n}, dtype, own));
    } else {
      Value unknown = *Tensor({}, dtype, nullptr);
      unknown.tensor_bits = kTensorShapeUnknown;
      tensors.emplace_back(std::move(unknown));
    }
  }
  tensors.push_back(Tensor({*m, *k}, dtype, stride(2)));
  tensors.push_back(Tensor({*k, *n}, dtype, stride(1)));
  std::vector<Value> args;
  for (std::optional<Value>& tensor : tensors) {
    if (!tensor.has_value()) return std::nullopt;
    args.push_back(*std::move(tensor));
  }
  return args;
}

// grouped_gemm: each of A_list by B.
std::optional<std::vector<Value>> GroupedProduct(const Config& config) {
  Sizes sizes(config);
  const Value* const group = sizes.Take("A_list");
  const Value* const other = sizes.Take("B");
  const std::string dtype = DtypeOf(sizes.Take("dtype"));
  if (group == nullptr || other == nullptr || !sizes.AllTaken() || !IsList(*group)) return std::nullopt;
  Value list;
  list.tag = ValueTag::kList;
  list.whole = group->items.size();
  for (const Value& item : group->items) {
    const std::optional<std::vector<Dim>> shape = DimsOf(item);
    if (!shape.has_value()) return std::nullopt;
    list.items.push_back(*Tensor(*shape, dtype, nullptr));
  }
  const std::optional<std::vector<Dim>> shape = DimsOf(*other);
  if (!shape.has_value()) return std::nullopt;
  return std::vector<Value>{std::move(list), *Tensor(*shape, dtype, nullptr)};
}

}  // namespace

NamedSizes ReadNamedSizes(Config* config) {
  if (config->api.find("::") != std::string::npos || !config->args.empty() || config->kwargs.empty()) {
    return NamedSizes::kNone;
  }
  bool changed = false;
  for (auto& [name, value] : config->kwargs) changed |= ReadNumbers(&value);
  const std::string_view api = config->api;
  std::optional<std::vector<Value>> args;
  if (api == "gemm" || api == "fp8_gemm") args = Product(*config, /*adds=*/false);
  if (api == "addmm") args = Product(*config, /*adds=*/true);
  if (api == "grouped_gemm") args = GroupedProduct(*config);
  if (!args.has_value()) return changed ? NamedSizes::kNumbers : NamedSizes::kNone;
  config->args = *std::move(args);
  config->kwargs.clear();
  return NamedSizes::kTensors;
}

}  // namespace torchtrace
