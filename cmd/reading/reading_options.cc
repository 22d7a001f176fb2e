#include "cmd/reading/reading_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cmd/cli/lists.h"
#include "cmd/cli/message.h"
#include "cmd/cli/options.h"
#include "serialize/apis/api_groups.h"
#include "serialize/base/shell_quote.h"
#include "serialize/import/open_trace.h"
#include "serialize/model/levels.h"
#include "serialize/trace/damage.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

bool HasGroup(const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [](const std::string& pattern) {
    return pattern.rfind('%', 0) == 0 || pattern.rfind("?%", 0) == 0;
  });
}

}  // namespace

absl::StatusOr<GlobFilter> ExpandGlobs(const std::vector<std::string>& include, const std::vector<std::string>& exclude,
                                       const std::string& groups_file) {
  GlobFilter globs = {.include = SplitLists(include), .exclude = SplitLists(exclude)};
  // The built-in groups take a millisecond to read.
  if (groups_file.empty() && !HasGroup(globs.include) && !HasGroup(globs.exclude)) return globs;
  absl::StatusOr<ApiGroups> groups = groups_file.empty() ? ApiGroups::BuiltIn() : ApiGroups::Load(groups_file);
  if (!groups.ok()) return groups.status();
  for (std::vector<std::string>* const list : {&globs.include, &globs.exclude}) {
    absl::StatusOr<std::vector<std::string>> expanded = groups->Expand(*list);
    if (!expanded.ok()) return expanded.status();
    *list = *std::move(expanded);
  }
  return globs;
}

void TellNotes(const Trace& trace) {
  for (const std::string& note : TraceNotes(trace)) Say(note);
}

std::vector<std::string> WhatIsMissing(const std::string& path, const Trace& trace) {
  std::vector<std::string> sentences;
  bool damaged = false, exact = true;
  uint64_t lost = 0;
  for (const ProcessInfo& process : trace.processes()) {
    damaged = damaged || !process.damage.sentences.empty();
    exact = exact && process.damage.lost_calls_exact;
    lost += process.damage.lost_calls;
  }
  if (damaged || lost > 0) {
    sentences.push_back(absl::StrCat(path == "-" ? "standard input" : path,
                                     " is damaged: ", CountLostCalls(lost, exact), " lost (torchtrace info ",
                                     path == "-" ? path : ShellQuote(path), " tells more)"));
  }
  for (std::string& note : TraceNotes(trace)) sentences.push_back(std::move(note));
  return sentences;
}

void TellWhatIsMissing(const std::string& path, const Trace& trace) {
  for (const std::string& sentence : WhatIsMissing(path, trace)) Say(sentence);
}

void CallFilterOptions::AddTo(CLI::App* app) {
  app->add_option("--include", include,
                  "Only APIs that match GLOB ('*', '?', '[a-z]', or a group: '%nn', '%linalg', ...); may be repeated")
      ->option_text("GLOB")
      ->allow_extra_args(false)
      ->group("Filtering");
  app->add_option("--exclude", exclude, "No APIs that match GLOB; may be repeated")
      ->option_text("GLOB")
      ->allow_extra_args(false)
      ->group("Filtering");
  app->add_option("--groups", groups, "More groups for --include and --exclude (see docs/FILTER.md)")
      ->option_text("FILE")
      ->group("Filtering");
  app->add_option("-l,--level,--levels", levels, "Only calls of these levels, by number or name")
      ->option_text("LEVELS")
      ->allow_extra_args(false)
      ->check(Checked([](const std::string& text) { return ParseLevels(text); }))
      ->group("Filtering");
  app->parse_complete_callback([this] {
    absl::StatusOr<GlobFilter> globs = ExpandGlobs(include, exclude, groups);
    if (!globs.ok()) throw CLI::ValidationError(std::string(globs.status().message()));
    globs_ = *std::move(globs);
  });
}

std::vector<int> CallFilterOptions::Levels() const {
  const absl::StatusOr<std::vector<int>> parsed = ParseLevels(levels);
  return parsed.ok() ? *parsed : std::vector<int>();
}

}  // namespace torchtrace
