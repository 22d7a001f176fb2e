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
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dialects/torch/describe/describe.h"
#include "serialize/model/config_builder.h"

namespace torchtrace::torch_dialect {

// What an operator's boxed integer represents.
enum class IntKind : char { kInt, kDtype, kLayout, kMemoryFormat };

struct ArgumentPlan {
  std::string name;
  IntKind int_kind = IntKind::kInt;
  std::string described_default;  // empty: it has none
  // Of tensors: before the call, after it, and after it if it raised. kUnnoted: it doesn't write them, or returns them.
  Elements before = Elements::kRead;
  Elements after = Elements::kUnnoted;
  Elements after_exception = Elements::kUnnoted;
};

struct OperatorPlan {
  std::string head;       // the first bytes of a config: level and "aten::add.Tensor"
  uint64_t number = 0;    // CallKey::NewFunctionNumber
  bool foreign = false;   // not one of PyTorch's own, whose inner calls are not recorded
  size_t positional = 0;  // the rest of `arguments` is keyword-only
  std::vector<ArgumentPlan> arguments;
  std::vector<Elements> returns;  // of the tensors of each
  bool writes = false;            // some arguments
  int non_blocking = -1;          // a flag among the arguments; -1: there is none
  size_t source = 0;              // what it then copies
};

// What a call of torch's API does with memory, as far as its name tells ("torch.Tensor.zero_").
enum class MemoryUse : uint8_t {
  kUnknown,
  kAllocates,     // returns memory without contents, or shows more of a tensor's
  kMayAllocate,   // returns memory without contents if its arguments are sizes (torch.Tensor)
  kMakesNewView,  // of its first argument's memory, in place
  kWrites,        // its first argument's memory
  kWaits,         // for what may still be writing its first argument's memory
};
MemoryUse MemoryUseOf(std::string_view api);

// Appends the description of one argument to a ConfigBuilder or to a call's key. A C++ value is described like the
// value that it is boxed into.
void DescribeArgument(IntKind kind, const c10::IValue& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, const c10::IValue& value, CallKey* key);
void DescribeArgument(IntKind kind, const at::Tensor& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, const at::Tensor& value, CallKey* key);
void DescribeArgument(IntKind kind, const at::Scalar& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, const at::Scalar& value, CallKey* key);
void DescribeArgument(IntKind kind, const c10::SymInt& value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::ScalarType value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::Layout value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::MemoryFormat value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, at::Device value, ConfigBuilder* config);
void DescribeArgument(IntKind kind, std::string_view value, ConfigBuilder* config);
inline void DescribeArgument(IntKind, const c10::SymInt& value, CallKey* key) {
  value.is_heap_allocated() ? key->Fail() : key->Int(value.as_int_unchecked());
}
inline void DescribeArgument(IntKind, at::ScalarType value, CallKey* key) { key->Int(static_cast<int64_t>(value)); }
inline void DescribeArgument(IntKind, at::Layout value, CallKey* key) { key->Int(static_cast<int64_t>(value)); }
inline void DescribeArgument(IntKind, at::MemoryFormat value, CallKey* key) { key->Int(static_cast<int64_t>(value)); }
inline void DescribeArgument(IntKind, at::Device value, CallKey* key) { DescribeDevice(value, key); }
inline void DescribeArgument(IntKind, std::string_view value, CallKey* key) { key->String(value); }
template <typename Call>
void DescribeArgument(IntKind, bool value, Call* call) {
  call->values().Bool(value);
}
template <typename Call>
void DescribeArgument(IntKind, int64_t value, Call* call) {
  call->values().Int(value);
}
template <typename Call>
void DescribeArgument(IntKind, double value, Call* call) {
  call->values().Float(value);
}
template <typename Item, typename Call>
void DescribeArgument(IntKind kind, at::ArrayRef<Item> items, Call* call) {
  call->Container(ValueTag::kList, items.size(), [&](size_t i) { DescribeArgument(kind, items[i], call); });
}
template <typename Item, size_t N, typename Call>
void DescribeArgument(IntKind kind, const std::array<Item, N>& items, Call* call) {
  DescribeArgument(kind, at::ArrayRef<Item>(items), call);
}
template <typename Item, typename Call>
void DescribeArgument(IntKind kind, const at::OptionalArrayRef<Item>& value, Call* call) {
  value.has_value() ? DescribeArgument(kind, *value, call) : call->values().None();
}
template <typename Value, typename Call>
void DescribeArgument(IntKind kind, const std::optional<Value>& value, Call* call) {
  value.has_value() ? DescribeArgument(kind, *value, call) : call->values().None();
}

// How to describe an argument whose C++ type only its kernel knows.
struct CppArgument {
  void (*describe)(IntKind kind, const void* value, ConfigBuilder* config);
  void (*add_to_key)(IntKind kind, const void* value, CallKey* key);
};
template <typename Argument>
inline constexpr CppArgument kCppArgument = {[](IntKind kind, const void* value, ConfigBuilder* config) {
                                               DescribeArgument(kind, *static_cast<const Argument*>(value), config);
                                             },
                                             [](IntKind kind, const void* value, CallKey* key) {
                                               DescribeArgument(kind, *static_cast<const Argument*>(value), key);
                                             }};
struct CppValue {
  const CppArgument* argument;
  const void* value;
};
inline void DescribeArgument(IntKind kind, const CppValue& value, ConfigBuilder* config) {
  value.argument->describe(kind, value.value, config);
}
inline void DescribeArgument(IntKind kind, const CppValue& value, CallKey* key) {
  value.argument->add_to_key(kind, value.value, key);
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
    if (const OperatorPlan* const known = Find(schema)) return *known;
    if (const uint64_t removals = removals_.load(std::memory_order_relaxed); removals != seen_removals_) {
      plans_.clear();
      seen_removals_ = removals;
    }
    std::unique_ptr<OperatorPlan>& plan = plans_[&schema];
    if (plan == nullptr) plan = Make(schema, level_);
    return *plan;
  }
  // Null: there is none yet. Doesn't throw.
  const OperatorPlan* Find(const c10::FunctionSchema& schema) const {
    if (removals_.load(std::memory_order_relaxed) != seen_removals_) return nullptr;
    const auto found = plans_.find(&schema);
    return found == plans_.end() ? nullptr : found->second.get();
  }

  static std::unique_ptr<OperatorPlan> Make(const c10::FunctionSchema& schema, int level);

 private:
  static inline std::atomic<uint64_t> removals_{0};

  const int level_;
  absl::flat_hash_map<const void*, std::unique_ptr<OperatorPlan>> plans_;
  uint64_t seen_removals_ = 0;
};

// The schema of an operator, "aten::add.Tensor", as PyTorch prints it; empty if there is none.
std::string SchemaTextOf(std::string_view api);

// Describes a call argument by argument, in the schema's order, as __torch_dispatch__ would show
// it: enums by name, wrapped numbers as numbers, defaults at the end left out.
class OperatorCallDescriber {
 public:
  // `elements`: which of them hold for the arguments.
  OperatorCallDescriber(const OperatorPlan& plan, ConfigBuilder* config,
                        Elements ArgumentPlan::* elements = &ArgumentPlan::before)
      : next_(plan.arguments.data()),
        elements_(elements),
        config_(config),
        arguments_(plan.head, plan.positional, config) {}

  // `argument` as C++ or as PyTorch's boxed calls pass it.
  template <typename Argument>
  void Add(const Argument& argument) {
    const ArgumentPlan& plan = *next_++;
    config_->SetElements(plan.*elements_);
    arguments_.Add(plan.name, plan.described_default, [&] { DescribeArgument(plan.int_kind, argument, config_); });
  }

 private:
  const ArgumentPlan* next_;
  Elements ArgumentPlan::* const elements_;
  ConfigBuilder* const config_;
  SchemaArguments arguments_;
};

// Describes the results of one call, in order.
class ResultDescriber {
 public:
  // `under_way`: the results are, like those of collectives.
  ResultDescriber(const OperatorPlan& plan, size_t count, bool under_way, ConfigBuilder* config)
      : plan_(plan), under_way_(under_way), config_(config) {
    config->BeginResult(count);
  }

  template <typename Result>
  void Add(const Result& result) {
    config_->SetElements(under_way_                     ? Elements::kLater
                         : next_ < plan_.returns.size() ? plan_.returns[next_]
                                                        : Elements::kReturned);
    ++next_;
    DescribeArgument(IntKind::kInt, result, config_);
  }
  void Add(const c10::intrusive_ptr<c10::TensorImpl>& result) { Add(at::Tensor(result)); }
  void Add(const std::vector<at::Tensor>& result) { Add(at::TensorList(result)); }

 private:
  const OperatorPlan& plan_;
  const bool under_way_;
  ConfigBuilder* const config_;
  size_t next_ = 0;
};

// Describes what a call wrote, by the arguments that it had (ConfigBuilder::KeepWritten).
void DescribeWritten(const OperatorPlan& plan, c10::ArrayRef<c10::IValue> arguments, Elements ArgumentPlan::* elements,
                     ConfigBuilder* config);

// The same to a call's key.
class OperatorCallKey {
 public:
  OperatorCallKey(const OperatorPlan& plan, CallKey* key) : next_(plan.arguments.data()), key_(key) {
    key->Begin(plan.number);
  }

  template <typename Argument>
  void Add(const Argument& argument) {
    DescribeArgument((next_++)->int_kind, argument, key_);
  }

 private:
  const ArgumentPlan* next_;
  CallKey* const key_;
};

inline OperatorCallDescriber DescriberOf(const OperatorPlan& plan, ConfigBuilder* config) { return {plan, config}; }
inline OperatorCallKey DescriberOf(const OperatorPlan& plan, CallKey* key) { return {plan, key}; }

// Describes a call to a ConfigBuilder or to its key. `arguments` points to as many as the plan has.
template <typename Call>
void DescribeOperatorCall(const OperatorPlan& plan, const c10::IValue* arguments, Call* call) {
  auto describer = DescriberOf(plan, call);
  for (size_t i = 0; i < plan.arguments.size(); ++i) describer.Add(arguments[i]);
}

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OPERATOR_PLAN_H_
