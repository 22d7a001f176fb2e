#include "serialize/numbers/nan_call_kind.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "serialize/base/text.h"
#include "serialize/forms/call_labels.h"
#include "serialize/numbers/tensor_numbers.h"
#include "serialize/trace/training_calls.h"

namespace torchtrace {
namespace {

// They make a tensor of numbers that the program's text holds.
constexpr std::string_view kConstructors[] = {"tensor",        "as_tensor",  "asarray",
                                              "scalar_tensor", "new_tensor", "Tensor"};
// They bring data that no call computed.
constexpr std::string_view kReaders[] = {"from_numpy",    "frombuffer", "from_blob",   "from_dlpack",
                                         "from_file",     "load",       "load_file",   "__get__",
                                         "get_parameter", "get_buffer", "__getattr__", "__next__"};

// Arguments by these names scale something: an infinity there isn't what the program wants in the result.
constexpr std::string_view kFactors[] = {"alpha", "beta", "lr", "weight_decay", "eps", "momentum", "scale", "p"};

void AddLiterals(const Value& value, NanLiterals* literals) {
  literals->infinity = literals->infinity || std::isinf(value.real) || std::isinf(value.imaginary);
  literals->nan = literals->nan || std::isnan(value.real) || std::isnan(value.imaginary);
  literals->array = literals->array || value.tag == ValueTag::kNdarray || value.tag == ValueTag::kNumpyScalar ||
                    value.tag == ValueTag::kObject || value.tag == ValueTag::kStorage;
  for (const Value& item : value.items) AddLiterals(item, literals);
}

}  // namespace

NanCallKind NanCallKindOf(const Config& config) {
  NanCallKind kind;
  kind.known = true;
  const std::string_view api = config.api, base = LastName(api);
  kind.module = !ModuleLabelOf(config).empty();
  for (const Value& value : config.args) AddLiterals(value, &kind.literals);
  for (const auto& [name, value] : config.kwargs) {
    if (!IsOneOf(name, kFactors)) AddLiterals(value, &kind.literals);
  }
  kind.gives_nan = kind.literals.nan;
  if (kind.module) return kind;
  kind.memory = MemoryEffectsOf(config);
  kind.batch_norm = base.find("batch_norm") != std::string_view::npos;
  kind.many_tensors = base.starts_with("_foreach_") || base.starts_with("_fused_");
  kind.backward = RunsBackward(api) || api == "torch.autograd.functional.vjp" || api.starts_with("autograd::engine::");
  kind.backward_name = base.ends_with("_backward") || base.ends_with("_backward_data");
  kind.begins_scope = base.starts_with("_record_function_enter");
  kind.ends_scope = api.find("_record_function_exit") != std::string_view::npos;
  const auto is_step = [](const Value& value) {
    return value.tag == ValueTag::kString && value.text.starts_with(kOptimizerStepScope);
  };
  kind.optimizer = api.starts_with(kOptimizerStepScope) ||
                   (kind.begins_scope && std::any_of(config.args.begin(), config.args.end(), is_step));
  kind.is_aten = api.starts_with("aten::");
  const bool constructs = IsOneOf(base, kConstructors);
  kind.constant = constructs && !kind.literals.array && !kind.memory.allocates;
  kind.reads = IsOneOf(base, kReaders) || ((constructs || base == "set_") && kind.literals.array);
  kind.lifts = base == "lift_fresh" || base == "lift_fresh_copy" || base == "lift";
  return kind;
}

}  // namespace torchtrace
