// The list of verbs, and the command line's first word: a verb, or a question about torchtrace itself.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "serialize/base/matching.h"

namespace torchtrace {

const std::vector<const Command*>& Commands() {
  static const std::vector<const Command*> commands = {
      &kRunCommand,    &kStatsCommand, &kInfoCommand,        &kDumpCommand,    &kTreeCommand,   &kRenderCommand,
      &kDedupCommand,  &kDiffCommand,  &kExportCommand,      &kApisCommand,    &kReplayCommand, &kMergeCommand,
      &kFilterCommand, &kHelpCommand,  &kCompletionsCommand, &kVersionCommand,
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
  std::vector<std::string> names;
  for (const Command* command : Commands()) names.push_back(command->name);
  return DidYouMean(name, names);
}

int RunCommandLine(const std::vector<std::string>& args) {
  if (args.empty()) return Fail(kExitTrouble, absl::StrCat("no verb was given", SeeHelp()));
  const std::string& word = args[0];
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (word == "-h" || word == "--help") return kHelpCommand.run(rest);
  if (word == "--help-all") return kHelpCommand.run({"--all"});
  if (word == "-V" || word == "--version") return kVersionCommand.run(rest);
  if (word.size() > 1 && word[0] == '-') {
    return Fail(kExitTrouble,
                absl::StrCat("unknown option ", word, DidYouMean(word, {"--help", "--help-all", "--version"}),
                             " (a verb comes first)", SeeHelp()));
  }
  if (const Command* const command = FindCommand(word)) {
    // What signals and a lack of memory do to a traced program is its own matter.
    if (command != &kRunCommand) {
      MakeWritesFail();
      EndWithoutMemory();
    }
    return command->run(rest);
  }
  return Fail(kExitTrouble, absl::StrCat("unknown verb '", word, "'", SuggestCommand(word), SeeHelp()));
}

}  // namespace torchtrace
