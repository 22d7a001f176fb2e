// Reads a list of APIs for level 0.

#ifndef TORCHTRACE_CMD_API_LIST_H_
#define TORCHTRACE_CMD_API_LIST_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// One dotted name a line; or YAML's block form, names under the key `apis`:
//
//   apis:
//   - torch.add      # comments and blank lines count for nothing
//   - torch.nn.Linear
//
// Errors name the line. `source` is for them.
absl::StatusOr<std::vector<std::string>> ParseApiList(std::string_view text, std::string_view source);

absl::StatusOr<std::vector<std::string>> ReadApiList(const std::string& path);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_API_LIST_H_
