#include "serialize/numbers/memory_effects.h"

#include <algorithm>
#include <string_view>

#include "serialize/base/text.h"
#include "serialize/model/levels.h"
#include "serialize/numbers/tensor_numbers.h"

namespace torchtrace {
namespace {

bool OnlyAllocates(std::string_view name, const Config& config) {
  // `torch.Tensor(2, 3)`, not `torch.Tensor([2, 3])`; `tensor.new(2, 3)`.
  if (const bool method = name == "new"; method || name == "Tensor") {
    return std::all_of(config.args.begin() + (method && !config.args.empty() ? 1 : 0), config.args.end(),
                       [](const Value& value) { return value.tag == ValueTag::kInt || value.tag == ValueTag::kSize; });
  }
  if (name.starts_with("_")) name.remove_prefix(1);
  return name.starts_with("empty") || name.starts_with("new_empty") ||
         IsOneOf(name, {"resize", "resize_", "resize_as_", "resize_output", "resize_output_"});
}

bool ChangesView(std::string_view name) {
  return IsOneOf(name, {"as_strided_", "detach_", "rename_", "requires_grad_", "retain_grad_", "set_", "share_memory_",
                        "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"});
}

bool HasTensor(const Value& value) {
  return value.tag == ValueTag::kTensor || std::any_of(value.items.begin(), value.items.end(), HasTensor);
}

bool WritesElements(std::string_view name, const Config& config) {
  if (name.starts_with("__") && name.ends_with("__")) {
    const bool augments = name.starts_with("__i") && !IsOneOf(name, {"__index__", "__int__", "__invert__", "__iter__"});
    return augments || name.starts_with("__set");
  }
  if (name.ends_with("_") || name.ends_with("_out")) return true;
  // `out=`. Where an operator's outputs have other names, its overload says one: aten::sort.values_stable.
  const size_t colons = config.api.find("::");
  const size_t dot = colons == std::string::npos ? colons : config.api.find('.', colons);
  const std::string_view overload = dot == std::string::npos ? "" : std::string_view(config.api).substr(dot + 1);
  return std::any_of(config.kwargs.begin(), config.kwargs.end(), [overload](const auto& named) {
    const auto& [keyword, value] = named;
    return HasTensor(value) && (keyword.starts_with("out") || overload.find(keyword) != std::string_view::npos);
  });
}

bool WritesLater(std::string_view api, std::string_view name) {
  const std::string_view space = api.substr(0, api.find("::"));
  const bool of_group = api.starts_with("torch.distributed.") || space == "c10d" || space == "c10d_functional" ||
                        space.starts_with("_c10d_functional");
  return of_group && !IsOneOf(name, {"wait_tensor", "send", "isend", "barrier", "monitored_barrier"});
}

}  // namespace

MemoryEffects MemoryEffectsOf(const Config& config) {
  if (config.level == kFrameLevel) return {};
  const std::string_view name = LastName(config.api);
  MemoryEffects effects;
  effects.allocates = OnlyAllocates(name, config);
  effects.changes_view = ChangesView(name);
  effects.writes = !effects.allocates && !effects.changes_view && WritesElements(name, config);
  effects.writes_later = WritesLater(config.api, name);
  return effects;
}

}  // namespace torchtrace
