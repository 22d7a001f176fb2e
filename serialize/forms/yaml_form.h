// The YAML form: a call as one item of the list in api_trace.yaml.
//
//   - api: torch.add
//     args: [{type: torch.Tensor, shape: [2, 3], dtype: torch.float32, device: cpu}, 1]
//     kwargs: {alpha: 10}
//
// Readers of YAML 1.1 (PyYAML) and 1.2 take every scalar for the same thing.
// docs/TEXT.md lists what each kind of value becomes. Callable from any thread.

#ifndef TORCHTRACE_SERIALIZE_FORMS_YAML_FORM_H_
#define TORCHTRACE_SERIALIZE_FORMS_YAML_FORM_H_

#include <string>
#include <string_view>
#include <vector>

#include "serialize/forms/plain_form.h"
#include "serialize/model/config.h"

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_YAML_FORM_H_
