// The levels by number and name, as --levels takes them.

#ifndef TORCHTRACE_CMD_CLI_LEVELS_H_
#define TORCHTRACE_CMD_CLI_LEVELS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// Numbers or names, separated by commas; the result is ascending, without
// duplicates. InvalidArgument names the choices.
absl::StatusOr<std::vector<int>> ParseLevels(const std::string& text);
// The same of several such lists.
absl::StatusOr<std::vector<int>> ParseLevels(const std::vector<std::string>& texts);

// "1 (function)".
std::string DescribeLevel(int level);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_LEVELS_H_
