// Verbs, their options and their help.

#ifndef TORCHTRACE_CMD_CLI_OPTIONS_H_
#define TORCHTRACE_CMD_CLI_OPTIONS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "serialize/base/choices.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

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
extern const Command kAttachCommand;
extern const Command kStatsCommand;
extern const Command kInfoCommand;
extern const Command kDumpCommand;
extern const Command kMemoryCommand;
extern const Command kNanCommand;
extern const Command kTreeCommand;
extern const Command kTopCommand;
extern const Command kCtlCommand;
extern const Command kDiffCommand;
extern const Command kRenderCommand;
extern const Command kDedupCommand;
extern const Command kExportCommand;
extern const Command kReportCommand;
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

// The check of a value.
struct Check {
  Check() = default;
  template <typename Call>
    requires std::is_invocable_r_v<std::string, Call, std::string&>
  Check(Call call) : run(std::move(call)) {}  // NOLINT(google-explicit-constructor)

  // Returns an error message, or an empty text. Null: every value is right.
  std::function<std::string(std::string& text)> run;
  // What a shell completes the value with, if set: words that the check accepts; it may accept others, too.
  std::function<std::vector<std::string>()> words;
  bool lists = false;     // the value is a list of these, with commas
  bool replaces = false;  // the value, when it is right
};

// A declared option or argument. The functions that return it are CLI11's of the same names.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* option_text(const std::string& placeholder);
  Option* envname();  // by its long name: TORCHTRACE_START_PAUSED
  Option* group(const std::string& heading);
  Option* check(Check check);
  Option* needs(Option* other);
  Option* excludes(Option* other);
  Option* required();
  Option* allow_extra_args(bool allow);
  size_t count() const;
  explicit operator bool() const { return count() > 0; }

  std::string long_name() const;  // without dashes
  const CLI::Option& parsed() const { return *option_; }
  bool has_check() const { return has_check_; }
  OptionHelp Help() const;

 private:
  CLI::Option* option_;
  bool has_check_ = false;
  std::function<std::vector<std::string>()> words_;
  bool lists_ = false;
};

// The options of a verb: CLI11's parser, whose headers take longer to compile than a verb. They are declared once, for
// both parsing and help.
class App {
 public:
  // `usage` is the first line of the help, without the program's name; `footer` follows the options.
  App(const Command& command, const std::string& usage, const std::string& footer);
  ~App();

  // Value: what options.cc lists.
  template <typename Value>
  Option* add_option(const std::string& names, Value& value, const std::string& text);
  template <typename Value>
  Option* add_flag(const std::string& names, Value& value, const std::string& text);

  // After parsing without an error; what it returns is another.
  void set_last_check(std::function<absl::Status()> check) { last_check_ = std::move(check); }

  Option* help_option() { return &options_.front(); }
  const Option& at(const std::string& long_name) const;  // there is one
  std::vector<std::string> Variables() const;            // of the environment
  std::set<std::string> NamesWithValue() const;          // "-o", "--output"

 private:
  friend std::optional<int> ParseOptions(App* app, const std::vector<std::string>& args, int usage_exit_code);

  VerbHelp Help() const;

  const std::unique_ptr<CLI::App> parser_;
  const std::string usage_;
  std::deque<Option> options_;  // the first is --help
  std::function<absl::Status()> last_check_;
};

inline std::unique_ptr<App> MakeApp(const Command& command, const std::string& usage, const std::string& footer = "") {
  return std::make_unique<App>(command, usage, footer);
}

// Fills in the variables that the app's options are bound to. Returns an exit code if the verb is done: after --help,
// or after an error, which was printed.
std::optional<int> ParseOptions(App* app, const std::vector<std::string>& args, int usage_exit_code);

// Whether the option is in `args`: its variable doesn't count, since it may be set for other runs as well.
bool IsTyped(const Option& option, const std::vector<std::string>& args);

// `parse` as a check: the message of an error status becomes the usage error.
template <typename Parse>
Check Checked(Parse parse) {
  return [parse](const std::string& text) {
    const auto parsed = parse(text);
    return parsed.ok() ? std::string() : std::string(parsed.status().message());
  };
}

inline Check Completed(Check check, std::function<std::vector<std::string>()> words) {
  check.words = std::move(words);
  return check;
}
// The same for lists with commas.
inline Check CompletedLists(Check check, std::function<std::vector<std::string>()> words) {
  check.lists = true;
  return Completed(std::move(check), std::move(words));
}

// Checks and completes a name by the table of choices.
template <typename Value>
Check OneOf(const Choices<Value>& choices) {
  return Completed(Checked([&choices](const std::string& text) { return choices.Parse(text); }),
                   [&choices] { return choices.names(); });
}

// The check of a count: only digits.
Check IsCount(uint64_t least = 0, uint64_t most = UINT64_MAX);

// The check of a number of bytes, such as 64KB or 1MB (ParseSize), which it replaces by the plain number. `least` must
// be whole MiB.
Check IsSize(uint64_t least = 0);

// The check of a number of seconds.
Check IsSeconds(double least, int64_t most);

// A time such as 50us, 1.5ms or 2s, of at least so many nanoseconds.
absl::StatusOr<int64_t> ParseNanoseconds(const std::string& text, int64_t least_ns = 0);

// The check of the name of a folder to write to.
Check IsFolderName();

// The check of a list with commas: it must not be empty.
Check IsList();

// The check of the name of a file or folder: it must not be empty (a script's variable may be).
Check IsName();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_OPTIONS_H_
