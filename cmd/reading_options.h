// The options that verbs which read traces have in common, spelled and told the
// same everywhere.

#ifndef TORCHTRACE_CMD_READING_OPTIONS_H_
#define TORCHTRACE_CMD_READING_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "serialize/glob.h"

namespace torchtrace {

class Trace;

inline constexpr char kTraceText[] =
    "The output folder of a run, a log, or another tool's file (see docs/IMPORT.md); - is standard input";

// Tells what the format of a trace from OpenTrace can't say, once it was read.
void TellNotes(const Trace& trace);

// --include, --exclude and --level.
struct CallFilterOptions {
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::vector<std::string> levels;

  void AddTo(CLI::App* app);
  GlobFilter Globs() const;
  // What --level names; checked when the options were parsed.
  std::vector<int> Levels() const;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_OPTIONS_H_
