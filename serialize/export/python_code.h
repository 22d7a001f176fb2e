// Calls as Python source. What a trace says may be anybody's text: names are checked (target.h), strings are quoted,
// and what has no spelling is an error that says what.

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

// The functions that the code below calls: tensor().
std::string_view CodePrelude();

// A literal in double quotes: ASCII without control characters.
absl::StatusOr<std::string> PythonString(std::string_view text);
// `(2, 3)`, `(2,)`.
std::string PythonTuple(const std::vector<std::string>& items);

// `tensor((2, 3), torch.float32, high=9)`: an expression that makes one. The numbers that it draws fit what was
// recorded, else as far as the other arguments of `config` tell. `memory`: as that of FlowSource.
absl::StatusOr<std::string> PythonTensor(const Value& tensor, const TensorNote* note, bool contents,
                                         const Config& config, bool memory = false);

// `torch.autocast("cpu", dtype=torch.bfloat16)`: a context, and a decorator.
std::string PythonAutocast(const CallAutocast& autocast);

// A call's arguments, each an expression.
struct PythonArguments {
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> kwargs;
  std::string index;       // the second one between brackets: `0, 1:`
  bool of_tensor = false;  // whether the first one is a tensor, which has methods and attributes
};
// `tensor` gives the expression of one, by its position.
absl::StatusOr<PythonArguments> WriteArguments(
    const Config& config, const std::function<absl::StatusOr<std::string>(const Value&, uint64_t)>& tensor);

struct PythonCall {
  std::string text;
  bool statement = false;  // without a value: `x[0] = 1`
};
// `torch.add(x, y)`, `x.view(2, 3)`, `x[0]`.
absl::StatusOr<PythonCall> WriteCall(const CallTarget& target, const PythonArguments& arguments);
// The same as a node of a torch.fx.Graph: `call(torch.add, (x, y), {})`, `method("view", (x, 2, 3), {})`.
absl::StatusOr<std::string> WriteNode(const CallTarget& target, const PythonArguments& arguments);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PYTHON_CODE_H_
