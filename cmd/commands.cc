// The list of verbs.

#include "cmd/cli/options.h"
#include "serialize/base/matching.h"

namespace torchtrace {

const std::vector<const Command*>& Commands() {
  static const std::vector<const Command*> commands = {
      &kRunCommand,    &kStatsCommand, &kInfoCommand,    &kDumpCommand, &kRenderCommand,
      &kDedupCommand,  &kDiffCommand,  &kExportCommand,  &kApisCommand, &kMergeCommand,
      &kFilterCommand, &kHelpCommand,  &kVersionCommand,
  };
  return commands;
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

}  // namespace torchtrace
