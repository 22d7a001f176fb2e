// Whether a Python and a torch are what the levels were written for: a program that makes known calls
// is traced in a child, and what was recorded of it is compared. Once for each pair; the result is kept.

#ifndef TORCHTRACE_CMD_RUN_SELF_CHECK_H_
#define TORCHTRACE_CMD_RUN_SELF_CHECK_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/trace/statistics.h"

namespace torchtrace {

struct SelfTest {
  std::string python;  // its file
  std::string python_version;
  std::string torch_version;
  std::string runtime_folder;
  std::vector<std::string> package_folders;  // where torch is looked for
  bool untested_torch = false;
  std::function<void(const std::string&)> tell;  // may be null
};

struct LevelFailure {
  std::string what;   // "of 1000 calls of torch.sin 3 were recorded"
  bool died = false;  // the level killed the program
};

// By level; empty where all is well.
using SelfTestResult = std::map<int, LevelFailure>;

// The result that is kept for this pair, or that of a self-test made now. Nothing, which isn't kept, where none can be
// made, because torch can't be imported for example.
std::optional<SelfTestResult> TestLevels(const SelfTest& test);

// What is wrong with a recording of the known calls by this level; empty: nothing.
std::string CompareKnownCalls(int level, const Statistics& recorded);

// As it is kept. Nothing for what is no result.
std::string FormatSelfTestResult(const SelfTestResult& result);
std::optional<SelfTestResult> ParseSelfTestResult(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_SELF_CHECK_H_
