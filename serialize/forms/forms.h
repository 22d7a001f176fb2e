// Formats and parses configs in the forms that files use: text, JSON, YAML.

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

// The text form: a config as one line for people, for comparison by tools, and
// for a parser that reads it back without loss. docs/TEXT.md has the grammar.
//
//   torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
//
// The result contains no line break or control character, whatever the values
// are. It doesn't include facets. Functions may be called from any thread.
std::string FormatConfig(const Config& config);
// For people only: similar neighbours in a container are folded, `list[52 x Tensor([*, 768], "float32")]`, and of many
// different ones only the first are shown, `list[0, 1, 2, 3, 4, 5, ... 44 more]`.
std::string FormatFoldedConfig(const Config& config);
// A value by itself, with names of `framework`.
std::string FormatValue(const Value& value, std::string_view framework = kFrameworks[0]);

// The name before the parenthesis: bare, or quoted if the bare name couldn't be
// read back or would break the line. Use it wherever an API's name is shown.
std::string FormatApi(std::string_view api);

// Like Python's repr: the shortest digits that read back as the same double,
// always with a point or an exponent, or inf or nan.
std::string FormatFloat(double value);

// `text` in double quotes, with JSON's escapes; invalid UTF-8 bytes as \xNN.
std::string QuoteText(std::string_view text);

// The JSON form of values and configs: docs/TEXT.md lists what each kind of
// value becomes. Numbers that JSON can't represent are tagged: {"type": "float",
// "value": "inf"}, {"type": "int", "value": "18446744073709551616"}. All text
// in the result is valid UTF-8, so dump() does not throw.
nlohmann::ordered_json ValueToJson(const Value& value);

// {"level": 1, "api": "torch.add", "args": [...], "kwargs": {...}}
nlohmann::ordered_json ConfigToJson(const Config& config, const std::vector<TensorFacet>& facets);

// Five digits: `0.58333`, `1.2e+06`.
std::string FormatNumber(double number);
// `nan 2, mean 0.1, min -3, max 3.2`: what is wrong comes first, and what there is none of is left out.
std::string NumbersText(const TensorNote::Numbers& numbers, bool with_mean = true);

// Adds a note on a tensor (docs/VALUES.md) to `json`, as "tensor", "storage", "offset", "min", "max", "contents" in
// base 64, and "numbers". Unless `contents` is null, appends the contents there and writes their number of bytes
// instead.
void AddNote(const TensorNote& note, nlohmann::ordered_json* json, std::vector<std::string_view>* contents = nullptr);
// [{"position": 0, "tensor": 7, ...}, ...]
nlohmann::ordered_json NotesToJson(const std::vector<TensorNote>& notes,
                                   std::vector<std::string_view>* contents = nullptr);

// On one line; invalid UTF-8 bytes become U+FFFD.
std::string DumpJson(const nlohmann::ordered_json& json);
std::string QuotedJson(std::string_view text);
// The same, indented by two and ending in a line break.
std::string DumpPrettyJson(const nlohmann::ordered_json& json);

// The YAML form: a call as one item of the list in api_trace.yaml.
//
//   - api: torch.add
//     args: [{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}, 1]
//     kwargs: {alpha: 10}
//
// Readers of YAML 1.1 (PyYAML) and 1.2 read every scalar alike.
// docs/TEXT.md lists what each kind of value becomes. Callable from any thread.

// The item with its `- `, further lines indented by two, ending in a line break.
// `facets` are the variant's; `extra` holds more members such as `calls: 3`, which
// follow the kwargs unchanged, each a `key: value` without a line break.
std::string FormatYamlItem(const Config& config, const std::vector<TensorFacet>& facets,
                           const std::vector<std::string>& extra = {});

// In flow style, on one line.
std::string FormatYaml(const Plain& plain);

// A string as a scalar: plain if no reader could mistake it for anything else,
// otherwise in double quotes. `in_flow`: inside [] or {}, where less can be plain.
std::string YamlScalar(std::string_view text, bool in_flow);

// Parses the text form (docs/TEXT.md) in one pass. It accepts what the functions
// above write, without loss, and what api_tracer, PaddleAPITest and TorchBench write:
//
//   torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
//   paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, )
//   ((T([768], f16), T([512, 768], f16, stride=(1, 512))), {'alpha': 2})
//
// Errors name the column, from 1, and what was expected there. Callable from
// any thread.

// One call, with the level that GuessLevel gives.
absl::StatusOr<Config> ParseConfigText(std::string_view line);

// One value by itself.
absl::StatusOr<Value> ParseValueText(std::string_view text);

// Parses Python's repr of (args, kwargs) as TorchBench's OperatorInputsMode writes it: a tuple
// or list, then a dict. Fills in args and kwargs.
absl::Status ParseTorchBenchInputs(std::string_view text, Config* config);

// The level of a call in text, which doesn't contain it: 2 for operators (`aten::add.Tensor`), 0 for functions of
// frameworks other than torch, which have no other level, otherwise 1.
int GuessLevel(std::string_view api);

// JSON text as Plain (plain_form.h): members keep their order, and integers beyond
// 64 bits their digits if the JSON reader passes them on. Callable from any thread.
// Errors name the offset in `text` and what was expected there.
absl::StatusOr<Plain> ParseJsonText(std::string_view text);

// The message of an nlohmann or yaml-cpp error without its code and position, on one line.
std::string ShortMessage(const std::string& what);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_FORMS_H_
