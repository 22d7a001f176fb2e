// What describing an operator's calls needs of its schema, worked out once per
// operator: names, which arguments are keywords, which integers are enums, and
// the defaults in described form, so that a default is told by comparing bytes.

#ifndef TORCHTRACE_DIALECTS_TORCH_OPERATOR_PLAN_H_
#define TORCHTRACE_DIALECTS_TORCH_OPERATOR_PLAN_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dialects/python/config_builder.h"

namespace torchtrace::torch_dialect {

enum class IntKind : char { kInt, kDtype, kLayout, kMemoryFormat };

struct ArgumentPlan {
  std::string name;
  IntKind int_kind = IntKind::kInt;
  bool has_default = false;
  std::string described_default;
};

struct OperatorPlan {
  std::string head;       // level 2 and "aten::add.Tensor", as a config's first bytes
  bool foreign = false;   // not one of PyTorch's own: what it calls inside is not seen
  size_t positional = 0;  // the rest of `arguments` is keyword-only
  std::vector<ArgumentPlan> arguments;
};

// The plans that one thread knows. A plan holds until the next Get: when an
// operator goes, its address and its name may come again with another schema, so
// all plans are forgotten.
class OperatorPlans {
 public:
  // Makes all threads' plans notice operators that go. Call once.
  static void WatchRemovals();

  const OperatorPlan& Get(const c10::OperatorHandle& op) {
    const void* const key = &op.operator_name();
    const uint64_t removals = removals_.load(std::memory_order_relaxed);
    if (removals == seen_removals_) {
      if (key == last_key_) return *last_;
    } else {
      plans_.clear();
      seen_removals_ = removals;
    }
    std::unique_ptr<OperatorPlan>& plan = plans_[key];
    if (plan == nullptr) plan = Make(op);
    last_key_ = key;
    return *(last_ = plan.get());
  }

 private:
  static std::unique_ptr<OperatorPlan> Make(const c10::OperatorHandle& op);

  static inline std::atomic<uint64_t> removals_{0};

  std::unordered_map<const void*, std::unique_ptr<OperatorPlan>> plans_;
  uint64_t seen_removals_ = 0;
  const void* last_key_ = nullptr;
  const OperatorPlan* last_ = nullptr;
};

// Describes a call whose arguments are the last ones on `stack`, as
// __torch_dispatch__ would show it: enums by name, wrapped numbers as numbers,
// defaults at the end left out.
void DescribeOperatorCall(const OperatorPlan& plan, const torch::jit::Stack& stack, ConfigBuilder* config);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_OPERATOR_PLAN_H_
