#include "cmd/reading_options.h"

#include "cmd/levels.h"
#include "cmd/lists.h"
#include "cmd/message.h"
#include "cmd/options.h"
#include "serialize/import/open_trace.h"

namespace torchtrace {

void TellNotes(const Trace& trace) {
  for (const std::string& note : TraceNotes(trace)) Say(note);
}

void CallFilterOptions::AddTo(CLI::App* app) {
  app->add_option("--include", include, "Only APIs that match GLOB ('*', '?'); may be repeated")
      ->option_text("GLOB")
      ->allow_extra_args(false)
      ->group("Filtering");
  app->add_option("--exclude", exclude, "No APIs that match GLOB; may be repeated")
      ->option_text("GLOB")
      ->allow_extra_args(false)
      ->group("Filtering");
  app->add_option("-l,--level,--levels", levels, "Only calls of these levels, by number or name")
      ->option_text("LEVELS")
      ->allow_extra_args(false)
      ->check(Checked([](const std::string& text) { return ParseLevels(text); }))
      ->group("Filtering");
}

GlobFilter CallFilterOptions::Globs() const { return {.include = SplitLists(include), .exclude = SplitLists(exclude)}; }

std::vector<int> CallFilterOptions::Levels() const {
  const absl::StatusOr<std::vector<int>> parsed = ParseLevels(levels);
  return parsed.ok() ? *parsed : std::vector<int>();
}

}  // namespace torchtrace
