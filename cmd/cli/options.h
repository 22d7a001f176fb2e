// Verbs, their options and their help.

#ifndef TORCHTRACE_CMD_CLI_OPTIONS_H_
#define TORCHTRACE_CMD_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/strings/str_split.h"
#include "serialize/base/choices.h"

namespace torchtrace {

// A verb of the command line. Each has a file of its own that ends with its descriptor; commands.cc lists them.
struct Command {
  const char* name;
  const char* description;  // one line, for the list of verbs
  const char* group;        // its heading in that list
  // Takes the words after the verb and returns the exit code.
  int (*run)(const std::vector<std::string>& args);
  // For a verb that only dispatches: its subverbs, whose names begin with its name.
  const std::vector<const Command*>& (*under)() = nullptr;
};

extern const Command kRunCommand;
extern const Command kStatsCommand;
extern const Command kInfoCommand;
extern const Command kDumpCommand;
extern const Command kTreeCommand;
extern const Command kDiffCommand;
extern const Command kRenderCommand;
extern const Command kDedupCommand;
extern const Command kExportCommand;
extern const Command kMergeCommand;
extern const Command kFilterCommand;
extern const Command kReplayCommand;
extern const Command kApisCommand;
extern const Command kVersionCommand;
extern const Command kHelpCommand;
extern const Command kCompletionsCommand;

// In the order of the first help page.
const std::vector<const Command*>& Commands();
// Subverbs in place of the verbs that only dispatch to them.
std::vector<const Command*> CommandsWithOptions();
// Null if no verb has that name.
const Command* FindCommand(const std::string& name);
// ", did you mean X?" or an empty string.
std::string SuggestCommand(const std::string& name);

// Runs torchtrace with the words of its command line, without its own name. Returns the exit code.
int RunCommandLine(const std::vector<std::string>& args);

// All items of an option that may be repeated and also takes lists with commas; without empty ones.
inline std::vector<std::string> SplitLists(const std::vector<std::string>& lists) {
  std::vector<std::string> items;
  for (const std::string& list : lists) {
    for (const auto item : absl::StrSplit(list, ',', absl::SkipEmpty())) items.emplace_back(item);
  }
  return items;
}

// What a verb's declaration of its options says to users: the source of the help page, the manual and completion.
struct OptionHelp {
  std::string group;               // its heading; empty for arguments
  std::vector<std::string> names;  // as typed, short ones first
  std::string negation;            // the one of them that negates it
  std::string value;               // the placeholder of its value: "FILE"
  bool takes_value = false;        // as the next word
  std::string text;                // with its environment variable
  std::vector<std::string> words;  // what a shell completes its value with
  bool lists = false;              // takes lists of these, with commas
};

struct VerbHelp {
  std::string name;         // "torchtrace stats"
  std::string usage;        // what follows the name
  std::string description;  // no full stop at the end
  std::vector<OptionHelp> options;
  std::string footer;  // with line breaks of its own
};

// Not for a verb that only dispatches.
VerbHelp HelpOf(const Command& command);

// The text of --help: usage, description, arguments, then the options by group, with wrapped and aligned texts.
std::string HelpPage(const VerbHelp& help);

// `head` in a first column, `text` wrapped in a second.
std::string TwoColumns(const std::string& head, const std::string& text, size_t first_width);

// " (see torchtrace stats --help)" for a usage error of `stats`; without a verb, a reference to the first page.
std::string SeeHelp(const std::string& verb = "");

// An app for `torchtrace VERB`: CLI11 with our conventions; ParseOptions catches its exceptions. Options are declared
// once, on the app, for both parsing and help. `usage` is the first line of its help, without the program's name;
// `footer` follows the options.
std::unique_ptr<CLI::App> MakeApp(const Command& command, const std::string& usage, const std::string& footer = "");

// Fills in the variables that the app's options are bound to. Returns an exit code if the verb is done: after --help,
// or after an error, which was printed.
std::optional<int> ParseOptions(CLI::App* app, const std::vector<std::string>& args, int usage_exit_code);

// Whether the option is in `args`: its variable doesn't count, since it may be set for other runs as well.
bool IsTyped(const CLI::Option& option, const std::vector<std::string>& args);

// `parse` as CLI11's check: the message of an error status becomes the usage error.
template <typename Parse>
CLI::Validator Checked(Parse parse) {
  return CLI::Validator(
      [parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      },
      "");
}

// `check` with completions of the value: words that it accepts; it may accept others, too.
CLI::Validator Completed(CLI::Validator check, std::function<std::vector<std::string>()> words);
// The same for lists with commas.
CLI::Validator CompletedLists(CLI::Validator check, std::function<std::vector<std::string>()> words);

// Checks and completes a name by the table of choices.
template <typename Value>
CLI::Validator OneOf(const Choices<Value>& choices) {
  return Completed(Checked([&choices](const std::string& text) { return choices.Parse(text); }),
                   [&choices] { return choices.names(); });
}

// The check of a count: only digits.
CLI::Validator IsCount(uint64_t least = 0, uint64_t most = UINT64_MAX);

// The check of a number of bytes, such as 64KB or 1MB (ParseSize), which it replaces by the plain number. `least` must
// be whole MiB.
CLI::Validator IsSize(uint64_t least = 0);

// The check of a number of seconds.
CLI::Validator IsSeconds(double least, int64_t most);

// The check of the name of a folder to write to.
CLI::Validator IsFolderName();

// The check of a list with commas: it must not be empty.
CLI::Validator IsList();

// The check of the name of a file or folder: it must not be empty (a script's variable may be).
CLI::Validator IsName();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_OPTIONS_H_
