// The self-test of the levels with a Python and a torch: traces a program that makes known calls in a child, and
// compares the recording with these calls. Runs once for each pair and keeps the result.

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
  std::string python;  // its program
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

// By level; empty if all levels work.
using SelfTestResult = std::map<int, LevelFailure>;

// The result that was kept for this pair, or that of a self-test made now. Nothing if no test is possible, for example
// because torch can't be imported; that isn't kept.
std::optional<SelfTestResult> TestLevels(const SelfTest& test);

// What is wrong with a recording of the known calls by this level; empty: nothing.
std::string CompareKnownCalls(int level, const Statistics& recorded);

// The text that is kept, and back. Nothing if the text is not a result.
std::string FormatSelfTestResult(const SelfTestResult& result);
std::optional<SelfTestResult> ParseSelfTestResult(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_RUN_SELF_CHECK_H_
