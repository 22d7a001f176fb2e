// How a log's metadata keeps the names of the operators that PyTorch had
// (docs/FORMAT.md, `operators`). Apart from trace_operators.h because a traced program
// writes it.

#ifndef TORCHTRACE_SERIALIZE_TRACE_OPERATOR_METADATA_H_
#define TORCHTRACE_SERIALIZE_TRACE_OPERATOR_METADATA_H_

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace torchtrace {

inline constexpr char kOperatorsKey[] = "operators";

// The version of PyTorch that a process's metadata tells; may be empty.
std::string TorchVersion(const nlohmann::json& metadata);

// The value of the key for operators by name, `aten::add.Tensor`, in any order.
nlohmann::json FormatOperators(std::vector<std::string> names);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_OPERATOR_METADATA_H_
