// Reads the text form (docs/TEXT.md) back, in one pass. It takes what text_form.h
// writes without loss, and what api_tracer, PaddleAPITest and TorchBench write:
//
//   torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
//   paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, )
//   ((T([768], f16), T([512, 768], f16, stride=(1, 512))), {'alpha': 2})
//
// Errors name the column, from 1, and what was expected there. Callable from
// any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_TEXT_PARSER_H_
#define TORCHTRACE_SERIALIZE_FORMS_TEXT_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "serialize/model/config.h"
#include "serialize/model/value_tree.h"

namespace torchtrace {

// One call, with the level that GuessLevel gives.
absl::StatusOr<Config> ParseConfigText(std::string_view line);

// One value that stands alone.
absl::StatusOr<Value> ParseValueText(std::string_view text);

// Python's repr of (args, kwargs) as TorchBench's OperatorInputsMode writes it: a tuple or
// list, then a dict. Fills in args and kwargs.
absl::Status ParseTorchBenchInputs(std::string_view text, Config* config);

// Text doesn't tell levels: 2 for operators (`aten::add.Tensor`), else 1.
int GuessLevel(std::string_view api);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_TEXT_PARSER_H_
