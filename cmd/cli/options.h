// What a verb is, its options and their help.

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

// A verb of the command line. Each has a file of its own that ends with its
// descriptor; commands.cc lists them.

struct Command {
  const char* name;
  const char* description;  // one line, as it stands in the list of verbs
  const char* group;        // the heading it stands under
  // Takes what follows the verb and returns the exit code.
  int (*run)(const std::vector<std::string>& args);
  // Of a verb that only hands over: those under it, whose names begin with its own.
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
// In place of those that only hand over, the ones under them.
std::vector<const Command*> CommandsWithOptions();
// Null when there is none of that name.
const Command* FindCommand(const std::string& name);
// ", did you mean X?" or nothing.
std::string SuggestCommand(const std::string& name);

// All of torchtrace: what stands on its command line, without its own name. Returns the exit code.
int RunCommandLine(const std::vector<std::string>& args);

// Options that may be repeated and also take lists with commas.

// All items of all lists, empty ones left out.
inline std::vector<std::string> SplitLists(const std::vector<std::string>& lists) {
  std::vector<std::string> items;
  for (const std::string& list : lists) {
    for (const auto item : absl::StrSplit(list, ',', absl::SkipEmpty())) items.emplace_back(item);
  }
  return items;
}

// What a verb's declaration of its options tells its users: the help page, the manual and completion
// are made of it.

struct OptionHelp {
  std::string group;               // the heading that it stands under; empty for arguments
  std::vector<std::string> names;  // as typed, short ones first
  std::string negation;            // that of them which takes it back
  std::string value;               // how its value is called: "FILE"
  bool takes_value = false;        // as the next word
  std::string text;                // with the environment variable that stands for it
  std::vector<std::string> words;  // what a shell completes its value with
  bool lists = false;              // of these, with commas
};

struct VerbHelp {
  std::string name;         // "torchtrace stats"
  std::string usage;        // what follows the name
  std::string description;  // no full stop at the end
  std::vector<OptionHelp> options;
  std::string footer;  // has its own lines
};

// Not for a verb that only hands over.
VerbHelp HelpOf(const Command& command);

// As --help shows it: usage, description, arguments, then the options by group, with their texts
// wrapped and aligned.
std::string HelpPage(const VerbHelp& help);

// `head` in a first column, `text` wrapped in a second.
std::string TwoColumns(const std::string& head, const std::string& text, size_t first_width);

// How every verb reads its options: CLI11 with our conventions. Options are
// declared once, on a CLI::App, and both parsing and help come from there.
//
// CLI11's exceptions end here.

// " (see torchtrace stats --help)" for a wrong use of `stats`; of no verb, for the first page.
std::string SeeHelp(const std::string& verb = "");

// An app for `torchtrace VERB`. `usage` is the first line of its help, without
// the program's name; `footer` stands under the options.
std::unique_ptr<CLI::App> MakeApp(const Command& command, const std::string& usage, const std::string& footer = "");

// Fills in what the app's options are bound to. The verb is done, with the
// exit code returned, after --help and after an error, which was said.
std::optional<int> ParseOptions(CLI::App* app, const std::vector<std::string>& args, int usage_exit_code);

// Whether the option stands among `args`: not by its variable, which may be set for other runs as well.
bool IsTyped(const CLI::Option& option, const std::vector<std::string>& args);

// `parse` as CLI11's check: the message of a status that is not OK becomes the
// usage error.
template <typename Parse>
CLI::Validator Checked(Parse parse) {
  return CLI::Validator(
      [parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : std::string(parsed.status().message());
      },
      "");
}

// `check`, and what a shell completes the value with: words that it lets pass, of which there may be others.
CLI::Validator Completed(CLI::Validator check, std::function<std::vector<std::string>()> words);
// The same of lists with commas.
CLI::Validator CompletedLists(CLI::Validator check, std::function<std::vector<std::string>()> words);

// The check of a name, and completion, by the table of them.
template <typename Value>
CLI::Validator OneOf(const Choices<Value>& choices) {
  return Completed(Checked([&choices](const std::string& text) { return choices.Parse(text); }),
                   [&choices] { return choices.names(); });
}

// The check of a number of things: digits, and nothing else.
CLI::Validator IsCount(uint64_t least = 0, uint64_t most = UINT64_MAX);

// The check of a number of bytes, 64KB or 1MB (ParseSize), in whose place it puts the plain number. `least` is of
// whole MiB.
CLI::Validator IsSize(uint64_t least = 0);

// The check of a time.
CLI::Validator IsSeconds(double least, int64_t most);

// The check of the name of a folder to write.
CLI::Validator IsFolderName();

// The check of a list with commas: that something is in it.
CLI::Validator IsList();

// The check of the name of a file or folder: that there is one (a script's variable may be empty).
CLI::Validator IsName();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_OPTIONS_H_
