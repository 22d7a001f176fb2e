// What describing an operator's calls needs of its schema, computed once per operator: names, which arguments are
// keywords, which integers are enums, and the defaults in described form, so that comparing bytes finds a default.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OPERATOR_PLAN_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OPERATOR_PLAN_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serialize/model/config_builder.h"

namespace torchtrace::torch_dialect {

// What an operator's boxed integer represents.
enum class IntKind : char { kInt, kDtype, kLayout, kMemoryFormat };

struct ArgumentPlan {
  std::string name;
  IntKind int_kind = IntKind::kInt;
  bool elements_are_read = true;  // of a tensor; false if only its metadata matters
  std::string described_default;  // empty: it has none
};

struct OperatorPlan {
  std::string head;       // the first bytes of a config: level and "aten::add.Tensor"
  bool foreign = false;   // not one of PyTorch's own, whose inner calls are not recorded
  size_t positional = 0;  // the rest of `arguments` is keyword-only
  std::vector<ArgumentPlan> arguments;
};

// Appends the bytes of one argument. A C++ value is described like the value that it is boxed into.
void DescribeArgument(IntKind kind, const c10::IValue& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, const at::Tensor& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, const at::Scalar& value, ConfigBuilder* config);
inline void DescribeArgument(IntKind, bool value, ConfigBuilder* config) { config->values().Bool(value); }
inline void DescribeArgument(IntKind, int64_t value, ConfigBuilder* config) { config->values().Int(value); }
inline void DescribeArgument(IntKind, double value, ConfigBuilder* config) { config->values().Float(value); }
void DescribeArgument(IntKind kind, const c10::SymInt& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::ScalarType value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::Layout value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::MemoryFormat value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::Device value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, std::string_view value, ConfigBuilder* config);
template <typename Item>
void DescribeArgument(IntKind kind, at::ArrayRef<Item> items, ConfigBuilder* config) {
  config->Container(ValueTag::kList, items.size(), [&](size_t i) { DescribeArgument(kind, items[i], config); });
}
template <typename Item, size_t N>
void DescribeArgument(IntKind kind, const std::array<Item, N>& items, ConfigBuilder* config) {
  DescribeArgument(kind, at::ArrayRef<Item>(items), config);
}
template <typename Item>
void DescribeArgument(IntKind kind, const at::OptionalArrayRef<Item>& value, ConfigBuilder* config) {
  value.has_value() ? DescribeArgument(kind, *value, config) : config->values().None();
}
template <typename Value>
void DescribeArgument(IntKind kind, const std::optional<Value>& value, ConfigBuilder* config) {
  value.has_value() ? DescribeArgument(kind, *value, config) : config->values().None();
}

// The plans of one thread for a level. A plan is valid until the next Get: when an operator is deregistered, all plans
// are dropped, since its address and its name may be used again with another schema.
class OperatorPlans {
 public:
  explicit OperatorPlans(int level) : level_(level) {}

  // Makes all threads' plans notice when operators are deregistered. Further calls do nothing.
  static void WatchRemovals();

  // `schema` is the operator's own and not a copy: its address is the key.
  const OperatorPlan& Get(const c10::FunctionSchema& schema) {
    const void* const key = &schema;
    const uint64_t removals = removals_.load(std::memory_order_relaxed);
    if (removals == seen_removals_) {
      if (key == last_key_) return *last_;
    } else {
      plans_.clear();
      seen_removals_ = removals;
    }
    std::unique_ptr<OperatorPlan>& plan = plans_[key];
    if (plan == nullptr) plan = Make(schema, level_);
    last_key_ = key;
    return *(last_ = plan.get());
  }

  static std::unique_ptr<OperatorPlan> Make(const c10::FunctionSchema& schema, int level);

 private:
  static inline std::atomic<uint64_t> removals_{0};

  const int level_;
  std::unordered_map<const void*, std::unique_ptr<OperatorPlan>> plans_;
  uint64_t seen_removals_ = 0;
  const void* last_key_ = nullptr;
  const OperatorPlan* last_ = nullptr;
};

// The schema of an operator, "aten::add.Tensor", as PyTorch prints it; empty if there is none.
std::string SchemaTextOf(std::string_view api);

// Describes a call argument by argument, in the schema's order, as __torch_dispatch__ would show
// it: enums by name, wrapped numbers as numbers, defaults at the end left out.
class OperatorCallDescriber {
 public:
  OperatorCallDescriber(const OperatorPlan& plan, ConfigBuilder* config)
      : next_(plan.arguments.data()), config_(config), arguments_(plan.head, plan.positional, config) {}

  // `argument` as C++ or as PyTorch's boxed calls pass it.
  template <typename Argument>
  void Add(const Argument& argument) {
    const ArgumentPlan& plan = *next_++;
    config_->SetElementsAreRead(plan.elements_are_read);
    arguments_.Add(plan.name, plan.described_default, [&] { DescribeArgument(plan.int_kind, argument, config_); });
  }

 private:
  const ArgumentPlan* next_;
  ConfigBuilder* const config_;
  SchemaArguments arguments_;
};

// Describes a call. `arguments` points to as many as the plan has.
void DescribeOperatorCall(const OperatorPlan& plan, const c10::IValue* arguments, ConfigBuilder* config);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OPERATOR_PLAN_H_
