#include "dialects/torch/describe/operator_plan.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/enum_names.h"
#include "serialize/base/text.h"
#include "serialize/model/levels.h"

namespace torchtrace::torch_dialect {
namespace {

IntKind KindOf(const c10::Argument& argument) {
  // real_type keeps what the plain type turns into int.
  c10::TypePtr type = argument.real_type();
  for (;;) {
    if (const auto optional = type->cast<c10::OptionalType>()) {
      type = optional->getElementType();
    } else if (const auto list = type->cast<c10::ListType>()) {
      type = list->getElementType();
    } else {
      break;
    }
  }
  switch (type->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return IntKind::kDtype;
    case c10::TypeKind::LayoutType:
      return IntKind::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return IntKind::kMemoryFormat;
    default:
      return IntKind::kInt;
  }
}

constexpr std::string_view kWaits = "wait_tensor";

// Of an operator or a function, by its name alone.
bool OnlyAllocates(std::string_view name) {
  static constexpr std::string_view kNames[] = {"empty",
                                                "empty_like",
                                                "empty_permuted",
                                                "empty_quantized",
                                                "empty_strided",
                                                "new_empty",
                                                "new_empty_strided",
                                                "_empty_affine_quantized",
                                                "_empty_per_channel_affine_quantized",
                                                "resize",
                                                "resize_",
                                                "resize_as",
                                                "resize_as_",
                                                "_resize_output_"};
  return IsOneOf(name, kNames);
}

// What an operator does with the elements of its tensors, by its schema.
class ElementPlan {
 public:
  explicit ElementPlan(const c10::FunctionSchema& schema) : schema_(schema), name_(schema.name()) {
    const size_t colon = name_.rfind(':');
    space_ = name_.substr(0, name_.find(':'));
    if (colon != std::string_view::npos) name_.remove_prefix(colon + 1);
    later_ = space_ == "c10d" || (space_.starts_with("_c10d_functional") && name_ != kWaits);
    const auto op = c10::Dispatcher::singleton().findSchema({schema.name(), schema.overload_name()});
    changes_view_ = op.has_value() && op->hasTag(at::Tag::inplace_view);
  }

  // Only the metadata matters of the base of a view, of an output, and of what a new tensor is to be like.
  Elements Before(const c10::Argument& argument) const {
    static constexpr std::string_view kOverwriting[] = {"copy_",        "fill_",      "zero_",      "normal_",
                                                        "uniform_",     "random_",    "cauchy_",    "bernoulli_",
                                                        "exponential_", "geometric_", "log_normal_"};
    if (name_ == kWaits || (later_ && IsOutput(argument))) return Elements::kUnread;
    if (const c10::AliasInfo* const alias = argument.alias_info(); alias != nullptr) {
      const bool is_read = alias->isWrite() && !argument.is_out() && !changes_view_ &&
                           !(IsFirst(argument) && IsOneOf(name_, kOverwriting));
      return is_read ? Elements::kRead : Elements::kUnread;
    }
    return name_.starts_with("new_") || name_.ends_with("_like") ? Elements::kUnread : Elements::kRead;
  }

  bool Writes(const c10::Argument& argument) const {
    // Of schemas that don't say so.
    static constexpr std::string_view kStatistics[] = {"running_mean", "running_var"};
    if (later_ && IsOutput(argument)) return true;
    const c10::AliasInfo* const alias = argument.alias_info();
    if (alias != nullptr) return alias->isWrite() && !changes_view_;
    return name_.find("batch_norm") != std::string_view::npos && name_.find("backward") == std::string_view::npos &&
           IsOneOf(argument.name(), kStatistics);
  }

  Elements After(const c10::Argument& argument) const {
    if (!Writes(argument)) return Elements::kUnnoted;
    if (later_) return Elements::kLater;
    return argument.alias_info() != nullptr && space_ == "aten" ? Elements::kMutated : Elements::kWritten;
  }

  bool IsReturned(const c10::Argument& argument) const {
    const c10::AliasInfo* const alias = argument.alias_info();
    return alias != nullptr && std::any_of(schema_.returns().begin(), schema_.returns().end(), [&](const auto& result) {
             return result.alias_info() != nullptr && *result.alias_info() == *alias;
           });
  }

  Elements Returned(const c10::Argument& result) const {
    if (later_) return Elements::kLater;
    if (OnlyAllocates(name_)) return Elements::kAllocated;
    if (changes_view_) return Elements::kNewView;
    const c10::AliasInfo* const alias = result.alias_info();
    // The loss alone is computed whole.
    if (name_ == "_ctc_loss" && &result != schema_.returns().data()) return Elements::kAllocated;
    if (alias == nullptr) return Elements::kWritten;
    if (!alias->isWrite()) return Elements::kView;
    return space_ == "aten" ? Elements::kMutated : Elements::kWritten;
  }

 private:
  bool IsFirst(const c10::Argument& argument) const { return &argument == schema_.arguments().data(); }
  // Of c10d's operators, whose schemas don't say so.
  bool IsOutput(const c10::Argument& argument) const {
    if (argument.name().starts_with("output")) return true;
    return space_ == "c10d" && argument.name() == "tensors" && name_ != "send" && name_ != "barrier";
  }

  const c10::FunctionSchema& schema_;
  std::string_view name_;  // without namespace and overload
  std::string_view space_;
  bool later_ = false;         // asynchronous work writes its results
  bool changes_view_ = false;  // of a tensor in place
};

class Describer {
 public:
  Describer(IntKind int_kind, ConfigBuilder* config)
      : int_kind_(int_kind), config_(config), values_(config->values()) {}

  void Value(const c10::IValue& value) {
    if (value.isTensor()) return DescribeArgument(int_kind_, value.toTensor(), config_);
    if (value.isInt()) return Int(value.toInt());
    if (value.isNone()) return values_.None();
    if (value.isBool()) return values_.Bool(value.toBool());
    if (value.isDouble()) return values_.Float(value.toDouble());
    if (value.isList()) return List(value);
    if (value.isString()) return DescribeArgument(int_kind_, std::string_view(value.toStringRef()), config_);
    if (value.isDevice()) return DescribeArgument(int_kind_, value.toDevice(), config_);
    if (value.isComplexDouble()) {
      const c10::complex<double> number = value.toComplexDouble();
      return values_.Complex(number.real(), number.imag());
    }
    if (value.isSymInt()) return values_.Named(ValueTag::kSymbol, "SymInt");
    if (value.isSymFloat()) return values_.Named(ValueTag::kSymbol, "SymFloat");
    if (value.isSymBool()) return values_.Named(ValueTag::kSymbol, "SymBool");
    if (value.isGenerator()) {
      const at::Generator generator = value.toGenerator();
      return generator.defined() ? values_.Named(ValueTag::kGenerator, DeviceName(generator.device())) : values_.None();
    }
    if (value.isTuple()) {
      const auto& elements = value.toTupleRef().elements();
      return config_->Container(ValueTag::kTuple, elements.size(), [&](size_t i) { Value(elements[i]); });
    }
    if (value.isGenericDict()) return Dict(value);
    if (value.isStorage()) {
      const c10::Storage storage = value.toStorage();
      if (!storage.sym_nbytes().is_heap_allocated()) {
        return values_.Storage(DeviceName(storage.device()), storage.sym_nbytes().as_int_unchecked());
      }
    }
    if (!value.isObject()) return values_.Named(ValueTag::kObject, value.tagKind());
    // Other objects of TorchScript as Python sees them.
    values_.Named(ValueTag::kObject, IsReduceOp(value)       ? ReduceOpName(value)
                                     : IsProcessGroup(value) ? ProcessGroupName(value)
                                                             : "torch.ScriptObject");
  }

 private:
  void Int(int64_t value) {
    switch (int_kind_) {
      case IntKind::kInt:
        return values_.Int(value);
      case IntKind::kDtype:
        return DescribeArgument(int_kind_, static_cast<at::ScalarType>(value), config_);
      case IntKind::kLayout:
        return DescribeArgument(int_kind_, static_cast<at::Layout>(value), config_);
      case IntKind::kMemoryFormat:
        return DescribeArgument(int_kind_, static_cast<at::MemoryFormat>(value), config_);
    }
  }

  void List(const c10::IValue& value) {
    const c10::ArrayRef<c10::IValue> items = value.toListRef();
    config_->Container(ValueTag::kList, items.size(), [&](size_t i) { Value(items[i]); });
  }

  void Dict(const c10::IValue& value) {
    const auto dict = value.toGenericDict();
    auto item = dict.begin();
    config_->Container(ValueTag::kDict, dict.size(), [&](size_t) {
      Value(item->key());
      Value(item->value());
      ++item;
    });
  }

  const IntKind int_kind_;
  ConfigBuilder* const config_;
  ConfigBuilder::Writer values_;
};

}  // namespace

MemoryUse MemoryUseOf(std::string_view api) {
  static constexpr std::string_view kNewViews[] = {"as_strided_", "set_", "squeeze_",   "swapaxes_",
                                                   "swapdims_",   "t_",   "transpose_", "unsqueeze_"};
  static constexpr std::string_view kWriteNothing[] = {"detach_", "rename_", "requires_grad_", "share_memory_"};
  // An operator's overload is no part of its name.
  constexpr std::string_view kOperators = "torch.ops.";
  if (api.starts_with(kOperators)) {
    api.remove_prefix(std::min(api.find('.', kOperators.size()) + 1, api.size()));
    api = api.substr(0, api.find('.'));
  }
  const std::string_view name = api.substr(api.rfind('.') + 1);
  if (OnlyAllocates(name)) return MemoryUse::kAllocates;
  if (name == "new" || name.ends_with("Tensor")) return MemoryUse::kMayAllocate;
  if (IsOneOf(name, kNewViews)) return MemoryUse::kMakesNewView;
  if (name == "__setitem__") return MemoryUse::kWrites;
  if (name == kWaits) return MemoryUse::kWaits;
  if (!name.ends_with('_') || name.ends_with("__") || IsOneOf(name, kWriteNothing)) return MemoryUse::kUnknown;
  return MemoryUse::kWrites;
}

void OperatorPlans::WatchRemovals() {
  struct Listener final : c10::OpRegistrationListener {
    void onOperatorRegistered(const c10::OperatorHandle&) override {}
    void onOperatorDeregistered(const c10::OperatorHandle&) override {
      removals_.fetch_add(1, std::memory_order_relaxed);
    }
  };
  // Never destroyed: it isn't needed when the process ends.
  static auto* const registration = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  static_cast<void>(registration);
}

std::string SchemaTextOf(std::string_view api) {
  const size_t dot = api.find('.', api.find("::"));
  const std::string overload(dot == std::string_view::npos ? std::string_view() : api.substr(dot + 1));
  const auto op = c10::Dispatcher::singleton().findSchema({std::string(api.substr(0, dot)), overload});
  return op.has_value() ? c10::toString(op->schema()) : "";
}

std::unique_ptr<OperatorPlan> OperatorPlans::Make(const c10::FunctionSchema& schema, int level) {
  auto plan = std::make_unique<OperatorPlan>();
  plan->number = CallKey::NewFunctionNumber();
  std::string shown = schema.name();
  if (!schema.overload_name().empty()) shown += "." + schema.overload_name();
  plan->head = ConfigBuilder::EncodeHead(level, shown);
  const std::string_view space = std::string_view(shown).substr(0, shown.find(':'));
  plan->foreign = space != "aten" && space != "prim" && space != "prims" && space != "quantized" && space != "mkldnn" &&
                  space != "mkl" && space != "onednn" && space != "inductor" && space != "c10d" &&
                  space != "_c10d_functional" && space != "profiler" && space != "fbgemm" && space != "sparse";
  const ElementPlan elements(schema);
  for (const c10::Argument& result : schema.returns()) plan->returns.push_back(elements.Returned(result));
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentPlan& own = plan->arguments.emplace_back();
    own.name = argument.name();
    own.int_kind = KindOf(argument);
    own.before = elements.Before(argument);
    // torch.tensor has filled its memory without an operator; of its allocation only level 4 is informed.
    if (level == kRecordLevel && schema.name() == "aten::lift_fresh") own.before = Elements::kWritten;
    own.after_exception = elements.After(argument);
    if (!elements.IsReturned(argument)) own.after = own.after_exception;
    plan->writes |= own.after_exception != Elements::kUnnoted;
    if (own.name == "src") plan->source = plan->arguments.size() - 1;
    if (own.name == "non_blocking") plan->non_blocking = static_cast<int>(plan->arguments.size()) - 1;
    if (!argument.kwarg_only()) plan->positional = plan->arguments.size();
    if (argument.default_value().has_value()) {
      ConfigBuilder config;
      config.Begin({});
      Describer(own.int_kind, &config).Value(*argument.default_value());
      own.described_default = config.bytes()->view();
    }
  }
  return plan;
}

void DescribeWritten(const OperatorPlan& plan, c10::ArrayRef<c10::IValue> arguments, Elements ArgumentPlan::* elements,
                     ConfigBuilder* config) {
  OperatorCallDescriber describer(plan, config, elements);
  for (const c10::IValue& argument : arguments) describer.Add(argument);
  config->KeepWritten();
}

void DescribeArgument(IntKind kind, const c10::IValue& value, ConfigBuilder* config) {
  Describer(kind, config).Value(value);
}

void DescribeArgument(IntKind kind, const c10::IValue& value, CallKey* key) {
  if (value.isTensor()) return DescribeArgument(kind, value.toTensor(), key);
  if (value.isInt()) return key->Int(value.toInt());
  if (value.isNone()) return key->None();
  if (value.isBool()) return key->Bool(value.toBool());
  if (value.isDouble()) return key->Float(value.toDouble());
  if (value.isList()) return DescribeArgument(kind, value.toListRef(), key);
  if (value.isString()) return key->String(value.toStringRef());
  if (value.isDevice()) return DescribeDevice(value.toDevice(), key);
  if (value.isObject() && !IsReduceOp(value) && !IsProcessGroup(value)) return key->Named(ValueTag::kObject, 0);
  key->Fail();
}

void DescribeArgument(IntKind, const at::Tensor& value, ConfigBuilder* config) {
  if (!DescribeWrappedNumber(value, config)) DescribeTensor(value, {}, config);
}

void DescribeArgument(IntKind, const at::Tensor& value, CallKey* key) {
  if (!DescribeWrappedNumber(value, key)) DescribeTensor(value, 0, key);
}

void DescribeArgument(IntKind kind, const at::Scalar& value, ConfigBuilder* config) {
  DescribeArgument(kind, c10::IValue(value), config);
}

void DescribeArgument(IntKind, const at::Scalar& value, CallKey* key) {
  if (value.isSymbolic()) return key->Fail();
  if (value.isFloatingPoint()) return key->Float(value.toDouble());
  if (value.isBoolean()) return key->Bool(value.toBool());
  if (value.isComplex()) {
    const c10::complex<double> number = value.toComplexDouble();
    return key->Complex(number.real(), number.imag());
  }
  value.type() == c10::ScalarType::Long ? key->Int(value.toLong()) : key->Fail();
}

void DescribeArgument(IntKind, const c10::SymInt& value, ConfigBuilder* config) {
  if (value.is_heap_allocated()) return config->values().Named(ValueTag::kSymbol, "SymInt");
  config->values().Int(value.as_int_unchecked());
}

void DescribeArgument(IntKind, at::ScalarType value, ConfigBuilder* config) {
  config->values().Named(ValueTag::kDtype, DtypeName(value));
}

void DescribeArgument(IntKind, at::Layout value, ConfigBuilder* config) {
  config->values().Named(ValueTag::kLayout, LayoutName(value));
}

void DescribeArgument(IntKind, at::MemoryFormat value, ConfigBuilder* config) {
  config->values().Named(ValueTag::kMemoryFormat, MemoryFormatName(value));
}

void DescribeArgument(IntKind, at::Device value, ConfigBuilder* config) {
  config->values().Named(ValueTag::kDevice, DeviceName(value));
}

void DescribeArgument(IntKind, std::string_view value, ConfigBuilder* config) {
  config->values().String(KeptText(value), value.size());
}

}  // namespace torchtrace::torch_dialect
