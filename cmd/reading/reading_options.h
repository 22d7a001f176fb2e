// The options that verbs which read traces have in common, spelled and told the
// same everywhere.

#ifndef TORCHTRACE_CMD_READING_READING_OPTIONS_H_
#define TORCHTRACE_CMD_READING_READING_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "serialize/base/glob.h"

namespace torchtrace {

class Trace;

inline constexpr char kTraceText[] =
    "The output folder of a run, a log, or another tool's file (see docs/IMPORT.md); - is standard input";

// Tells what the format of a trace from OpenTrace can't say, once it was read.
void TellNotes(const Trace& trace);
// The same, and what the trace at `path` lost, for verbs that tell it in no other way. It is told
// when the verb has succeeded: an error stands alone.
std::vector<std::string> WhatIsMissing(const std::string& path, const Trace& trace);
// Says it.
void TellWhatIsMissing(const std::string& path, const Trace& trace);

// The globs that --include and --exclude name, `%group`s replaced by theirs.
// `groups_file` as --groups has it; empty: only the built-in groups.
absl::StatusOr<GlobFilter> ExpandGlobs(const std::vector<std::string>& include, const std::vector<std::string>& exclude,
                                       const std::string& groups_file);

// --include, --exclude, --groups and --level.
struct CallFilterOptions {
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  std::string groups;
  std::vector<std::string> levels;

  // It must outlive the parsing.
  void AddTo(CLI::App* app);
  // What --include and --exclude name; checked when the options were parsed.
  const GlobFilter& Globs() const { return globs_; }
  // What --level names; checked when the options were parsed.
  std::vector<int> Levels() const;

 private:
  GlobFilter globs_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_READING_READING_OPTIONS_H_
