// Calls as Python source. A trace is untrusted: names are checked (target.h), strings are quoted, and a value without
// a spelling is an error that names it.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PYTHON_CODE_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PYTHON_CODE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/flow/target.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"

namespace torchtrace {

// The Python functions that generated code calls: tensor().
std::string_view CodePrelude();

// A literal in double quotes, of ASCII without control characters.
absl::StatusOr<std::string> PythonString(std::string_view text);
// `(2, 3)`, `(2,)`.
std::string PythonTuple(const std::vector<std::string>& items);

// `tensor((2, 3), torch.float32, high=9)`: an expression that makes a tensor. It draws numbers in the recorded range
// or, without one, in a range that suits the other arguments of `config`. `memory`: as in FlowSource.
absl::StatusOr<std::string> PythonTensor(const Value& tensor, const TensorNote* note, bool contents,
                                         const Config& config, bool memory = false);

// `torch.autocast("cpu", dtype=torch.bfloat16)`: a context, and a decorator.
std::string PythonAutocast(const CallAutocast& autocast);

// A call's arguments, each an expression.
struct PythonArguments {
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> kwargs;
  std::string index;       // the second argument as a subscript: `0, 1:`
  bool of_tensor = false;  // the first argument is a tensor, which has methods and attributes
};
// `tensor` returns the expression of the tensor at a position.
absl::StatusOr<PythonArguments> WriteArguments(
    const Config& config, const std::function<absl::StatusOr<std::string>(const Value&, uint64_t)>& tensor);

struct PythonCall {
  std::string text;
  bool statement = false;  // it has no value: `x[0] = 1`
};
// `torch.add(x, y)`, `x.view(2, 3)`, `x[0]`.
absl::StatusOr<PythonCall> WriteCall(const CallTarget& target, const PythonArguments& arguments);
// The same as a node of a torch.fx.Graph: `call(torch.add, (x, y), {})`, `method("view", (x, 2, 3), {})`.
absl::StatusOr<std::string> WriteNode(const CallTarget& target, const PythonArguments& arguments);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PYTHON_CODE_H_
