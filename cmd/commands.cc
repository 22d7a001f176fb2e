// The list of verbs, and the command line's first word: a verb, or an option of torchtrace itself.

#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "serialize/base/command_name.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"

namespace torchtrace {

const std::vector<const Command*>& Commands() {
  static const std::vector<const Command*> commands = {
      &kRunCommand,    &kAttachCommand, &kCtlCommand,         &kTopCommand,     &kStatsCommand,  &kInfoCommand,
      &kDumpCommand,   &kTreeCommand,   &kReportCommand,      &kRenderCommand,  &kDedupCommand,  &kDiffCommand,
      &kNanCommand,    &kMemoryCommand, &kExportCommand,      &kApisCommand,    &kReplayCommand, &kMergeCommand,
      &kFilterCommand, &kHelpCommand,   &kCompletionsCommand, &kVersionCommand,
  };
  return commands;
}

std::vector<const Command*> CommandsWithOptions() {
  std::vector<const Command*> all;
  for (const Command* command : Commands()) {
    if (command->under == nullptr) {
      all.push_back(command);
    } else {
      all.insert(all.end(), command->under().begin(), command->under().end());
    }
  }
  return all;
}

const Command* FindCommand(const std::string& name) {
  for (const Command* command : Commands()) {
    if (name == command->name) return command;
  }
  return nullptr;
}

std::string SuggestCommand(const std::string& name) {
  // Subverbs match by their last word.
  std::map<std::string, std::string> full_names;
  std::vector<std::string> names;
  const auto add = [&](const std::string& word, const std::string& full) {
    if (full_names.emplace(word, full).second) names.push_back(word);
  };
  for (const Command* command : Commands()) add(command->name, command->name);
  for (const Command* command : CommandsWithOptions()) {
    const std::string full = command->name;
    add(full.substr(full.rfind(' ') + 1), full);
  }
  const std::string nearest = Nearest(name, names);
  return nearest.empty() ? "" : absl::StrCat(", did you mean ", full_names[nearest], "?");
}

namespace {

// The message for a word that is no verb, with the verb that the user may have meant.
std::string UnknownVerb(const std::string& word) {
  const std::string run = absl::StrCat(", did you mean ", CommandName(), " run ", ShellQuote(word), "?");
  std::string meant = word.ends_with(".py") ? run : SuggestCommand(word);
  std::error_code error;
  if (meant.empty() && std::filesystem::is_regular_file(word, error)) meant = run;
  return absl::StrCat("unknown verb '", word, "'", meant);
}

std::string UnknownFirstOption(const std::string& word) {
  const bool of_run = word == "-m" || word == "-c";
  return absl::StrCat("unknown option ", word,
                      of_run ? absl::StrCat(", did you mean ", CommandName(), " run ", word, "?")
                             : DidYouMean(word, {"--help", "--help-all", "--version"}),
                      " (a verb comes first)");
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& args) {
  if (args.empty()) return Fail(kExitTrouble, absl::StrCat("no verb was given", SeeHelp()));
  const std::string& word = args[0];
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (word == "-h" || word == "--help") return kHelpCommand.run(rest);
  if (word == "--help-all") {
    std::vector<std::string> all = {"--all"};
    all.insert(all.end(), rest.begin(), rest.end());
    return kHelpCommand.run(all);
  }
  if (word == "-V" || word == "--version") return kVersionCommand.run(rest);
  if (word.size() > 1 && word[0] == '-') {
    return Fail(kExitTrouble, UnknownFirstOption(word) + SeeHelp());
  }
  if (const Command* const command = FindCommand(word)) {
    // In `run`, signals and a lack of memory are up to the traced program.
    if (command != &kRunCommand) {
      MakeWritesFail();
      EndWithoutMemory();
    }
    return command->run(rest);
  }
  return Fail(kExitTrouble, UnknownVerb(word) + SeeHelp());
}

}  // namespace torchtrace
