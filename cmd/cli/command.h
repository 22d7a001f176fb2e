// A verb of the command line. Each has a file of its own that ends with its
// descriptor; main.cc lists them.

#ifndef TORCHTRACE_CMD_CLI_COMMAND_H_
#define TORCHTRACE_CMD_CLI_COMMAND_H_

#include <string>
#include <vector>

namespace torchtrace {

struct Command {
  const char* name;
  const char* description;  // one line, as it stands in the list of verbs
  const char* group;        // the heading it stands under
  // Takes what follows the verb and returns the exit code.
  int (*run)(const std::vector<std::string>& args);
};

extern const Command kRunCommand;
extern const Command kStatsCommand;
extern const Command kInfoCommand;
extern const Command kDumpCommand;
extern const Command kDiffCommand;
extern const Command kRenderCommand;
extern const Command kDedupCommand;
extern const Command kExportCommand;
extern const Command kMergeCommand;
extern const Command kFilterCommand;
extern const Command kApisCommand;
extern const Command kVersionCommand;
extern const Command kHelpCommand;

// In the order of the first help page.
const std::vector<const Command*>& Commands();
// Null when there is none of that name.
const Command* FindCommand(const std::string& name);
// ", did you mean X?" or nothing.
std::string SuggestCommand(const std::string& name);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_COMMAND_H_
