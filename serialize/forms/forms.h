// A config in each form that files have it in, and back: text, JSON, YAML.

#ifndef TORCHTRACE_SERIALIZE_FORMS_FORMS_H_
#define TORCHTRACE_SERIALIZE_FORMS_FORMS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/forms/plain_form.h"
#include "serialize/model/config.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"

namespace torchtrace {

// The text form: a config as one line that a person reads, that tools compare
// and that a parser can take back without loss. docs/TEXT.md is its grammar.
//
//   torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
//
// Whatever the values hold, the result has no line break and no control
// character. Facets are not part of it. Functions may be called from any thread.

std::string FormatConfig(const Config& config);
// For reading only: neighbours in a container that are alike are one, `list[52 x Tensor([*, 768], "float32")]`, and of
// many different ones the first are shown, `list[0, 1, 2, 3, 4, 5, ... 44 more]`.
std::string FormatFoldedConfig(const Config& config);
// Of a value that stands alone, whose names are this framework's.
std::string FormatValue(const Value& value, std::string_view framework = kFrameworks[0]);

// The name before the parenthesis: bare, or quoted where that would not be read
// back or break the line. For every place that shows an API's name.
std::string FormatApi(std::string_view api);

// As Python's repr: the shortest digits that read back as the same double,
// always with a point, an exponent, inf or nan.
std::string FormatFloat(double value);

// `text` in double quotes, with JSON's escapes; bytes that are no UTF-8 as \xNN.
std::string QuoteText(std::string_view text);

// The JSON form of values and configs: docs/TEXT.md lists what each kind of
// value becomes. What JSON has no number for is tagged: {"type": "float",
// "value": "inf"}, {"type": "int", "value": "18446744073709551616"}. All text
// in the result is valid UTF-8, so that dump() does not throw.

nlohmann::ordered_json ValueToJson(const Value& value);

// {"level": 1, "api": "torch.add", "args": [...], "kwargs": {...}}
nlohmann::ordered_json ConfigToJson(const Config& config, const std::vector<TensorFacet>& facets);

// What is known of a tensor beside its description (docs/VALUES.md), as members of `json`: "tensor", "storage",
// "offset", "min", "max", "contents" in base 64. With a list to put contents in, these go there, and their number of
// bytes stands in their place.
void AddNote(const TensorNote& note, nlohmann::ordered_json* json, std::vector<std::string_view>* contents = nullptr);
// [{"position": 0, "tensor": 7, ...}, ...]
nlohmann::ordered_json NotesToJson(const std::vector<TensorNote>& notes,
                                   std::vector<std::string_view>* contents = nullptr);

// On one line; bytes that are no UTF-8 become U+FFFD.
std::string DumpJson(const nlohmann::ordered_json& json);
// The same, indented by two and ending in a line break.
std::string DumpPrettyJson(const nlohmann::ordered_json& json);

// The YAML form: a call as one item of the list in api_trace.yaml.
//
//   - api: torch.add
//     args: [{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}, 1]
//     kwargs: {alpha: 10}
//
// Readers of YAML 1.1 (PyYAML) and 1.2 take every scalar for the same thing.
// docs/TEXT.md lists what each kind of value becomes. Callable from any thread.

// The item with its `- `, indented by two below it, ending in a line break.
// `facets` are the variant's; `extra` is put behind the kwargs as it is, for
// lists that say more (`calls: 3`), each entry one `key: value` without a break.
std::string FormatYamlItem(const Config& config, const std::vector<TensorFacet>& facets,
                           const std::vector<std::string>& extra = {});

// In flow style, on one line.
std::string FormatYaml(const Plain& plain);

// A string as a scalar: plain where no reader could take it for anything else,
// else in double quotes. `in_flow`: inside [] or {}, where less can be plain.
std::string YamlScalar(std::string_view text, bool in_flow);

// Reads the text form (docs/TEXT.md) back, in one pass. It takes what forms.h
// writes without loss, and what api_tracer, PaddleAPITest and TorchBench write:
//
//   torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
//   paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, )
//   ((T([768], f16), T([512, 768], f16, stride=(1, 512))), {'alpha': 2})
//
// Errors name the column, from 1, and what was expected there. Callable from
// any thread.

// One call, with the level that GuessLevel gives.
absl::StatusOr<Config> ParseConfigText(std::string_view line);

// One value that stands alone.
absl::StatusOr<Value> ParseValueText(std::string_view text);

// Python's repr of (args, kwargs) as TorchBench's OperatorInputsMode writes it: a tuple or
// list, then a dict. Fills in args and kwargs.
absl::Status ParseTorchBenchInputs(std::string_view text, Config* config);

// Text doesn't tell levels: 2 for operators (`aten::add.Tensor`), 0 for functions of another framework than torch,
// which have no other, else 1.
int GuessLevel(std::string_view api);

// JSON text as Plain (plain_form.h): members stay in their order, integers beyond
// 64 bits keep their digits where JSON's reader has them. Callable from any thread.

// Errors name the offset in `text` and what was expected there.
absl::StatusOr<Plain> ParseJsonText(std::string_view text);

// What an error of nlohmann's or yaml-cpp's says behind its code and position, on one line.
std::string ShortMessage(const std::string& what);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_FORMS_H_
