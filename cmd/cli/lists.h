// Options that may be repeated and also take lists with commas.

#ifndef TORCHTRACE_CMD_CLI_LISTS_H_
#define TORCHTRACE_CMD_CLI_LISTS_H_

#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace torchtrace {

// All items of all lists, empty ones left out.
inline std::vector<std::string> SplitLists(const std::vector<std::string>& lists) {
  std::vector<std::string> items;
  for (const std::string& list : lists) {
    for (const auto item : absl::StrSplit(list, ',', absl::SkipEmpty())) items.emplace_back(item);
  }
  return items;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_LISTS_H_
