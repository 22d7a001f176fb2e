// A call of an operator as TorchBench, TritonBench and BackendBench know it: the
// operator's name as str(OpOverload) gives it, and its inputs as a Python expression
// that their loader evaluates.
//
//   aten.addmm.default
//   ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})
//
// The loader knows T, ST, inf, torch, th and the abbreviations of dtypes, and names
// operators through `aten` alone. A tensor's device is not said, other devices by their
// type.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_OPERATOR_INPUTS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_OPERATOR_INPUTS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "serialize/model/config.h"

namespace torchtrace {

// Errors say why there is no such name or expression: "not of level 2", "a torch.Generator".
absl::StatusOr<std::string> OperatorName(const Config& config);
absl::StatusOr<std::string> OperatorInputs(const Config& config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_OPERATOR_INPUTS_H_
