// The levels at which calls are recorded: the only table of their numbers, names and descriptions.
// A trace has only the numbers; readers accept numbers that are not in this table.

#ifndef TORCHTRACE_SERIALIZE_MODEL_LEVELS_H_
#define TORCHTRACE_SERIALIZE_MODEL_LEVELS_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

inline constexpr int kSetattrLevel = 0;
inline constexpr int kFunctionLevel = 1;
inline constexpr int kDispatchLevel = 2;
inline constexpr int kFrameLevel = 3;
inline constexpr int kRecordLevel = 4;

struct Level {
  int number;
  const char* name;
  const char* sees;  // a description; empty: no build traces this level
};

// By number, from 0 without gaps.
std::span<const Level> AllLevels();

// Numbers or names, separated by commas; the result is ascending, without
// duplicates. InvalidArgument names the choices.
absl::StatusOr<std::vector<int>> ParseLevels(const std::string& text);
// The same for several such lists.
absl::StatusOr<std::vector<int>> ParseLevels(const std::vector<std::string>& texts);

// "1 (function)".
std::string DescribeLevel(int level);

// The numbers and names that a list may have: of the levels that builds trace.
std::vector<std::string> LevelNames();

// "0 setattr, the Python functions and classes of a list; 1 ...", of the levels that builds trace.
std::string DescribeLevels();

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_LEVELS_H_
