#include "dialects/torch/describe/operator_plan.h"

#include <string>
#include <string_view>
#include <utility>

#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/enum_names.h"

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

// Only the metadata matters of the base of a view, of an output, and of what a new tensor is to be like.
bool ElementsAreRead(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  const c10::AliasInfo* const alias = argument.alias_info();
  if (alias != nullptr) return alias->isWrite() && !argument.is_out();
  std::string_view name = schema.name();
  name.remove_prefix(name.rfind(':') + 1);
  return !name.starts_with("new_") && !name.ends_with("_like");
}

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
    values_.Named(ValueTag::kObject, IsReduceOp(value) ? ReduceOpName(value) : "torch.ScriptObject");
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
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentPlan& own = plan->arguments.emplace_back();
    own.name = argument.name();
    own.int_kind = KindOf(argument);
    own.elements_are_read = ElementsAreRead(schema, argument);
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
  if (value.isObject() && !IsReduceOp(value)) return key->Named(ValueTag::kObject, 0);
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
