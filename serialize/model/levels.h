// The levels at which calls are seen: the one table of their numbers, names and what is said
// of them. In a trace a level is its number alone; one that isn't here is read as any other.

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
  const char* sees;  // for people; empty: no build traces it
};

// By number, from 0 without gaps.
std::span<const Level> AllLevels();

// Numbers or names, separated by commas; the result is ascending, without
// duplicates. InvalidArgument names the choices.
absl::StatusOr<std::vector<int>> ParseLevels(const std::string& text);
// The same of several such lists.
absl::StatusOr<std::vector<int>> ParseLevels(const std::vector<std::string>& texts);

// "1 (function)".
std::string DescribeLevel(int level);

// What a list may name: numbers and names, of those that are traced.
std::vector<std::string> LevelNames();

// "0 setattr, the Python functions and classes of a list; 1 ...", of those that are traced.
std::string DescribeLevels();

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_LEVELS_H_
