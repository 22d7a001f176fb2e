// `torchtrace completions`: a shell script, which asks the same verb what may follow the typed words.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/run/run_request.h"
#include "serialize/base/choices.h"

namespace torchtrace {
namespace {

// Precedes the words; the last of these is the one at the cursor.
constexpr char kWords[] = "words";

// If there are no completions, all three shells complete file names.
const Choices<std::string>& Scripts() {
  static const Choices<std::string> scripts("unknown shell", {
                                                                 {"bash", R"sh(_torchtrace() {
  local -a words=()
  local word last= typed kept i
  # Bash takes words apart at = and :, as in --levels=1 and aten::add, and wants the last piece alone.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && [[ $word == [=:]* || $last == *[=:] ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    last=$word
  done
  typed=${words[-1]}
  [[ $last == [=:]* ]] && last=
  kept=${typed%"$last"}
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("${word#"$kept"}")
  done < <("${COMP_WORDS[0]/#\~/$HOME}" completions words "${words[@]}" 2>/dev/null)
}
complete -o default -F _torchtrace torchtrace
)sh"},
                                                                 {"zsh", R"sh(#compdef torchtrace
_torchtrace() {
  local -a answers
  local line
  for line in ${(f)"$(${(Q)words[1]} completions words "${(@Q)words[2,CURRENT]}" 2>/dev/null)"}; do
    answers+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#answers )); then _describe torchtrace answers; else _files; fi
}
compdef _torchtrace torchtrace
[[ $funcstack[1] != _torchtrace ]] || _torchtrace "$@"
)sh"},
                                                                 {"fish", R"sh(function __torchtrace_words
  set -l words (commandline -opc) (commandline -ct)
  $words[1] completions words $words[2..-1] 2>/dev/null
end
complete -c torchtrace -n 'count (__torchtrace_words) >/dev/null' -f -a '(__torchtrace_words)'
)sh"},
                                                             });
  return scripts;
}

using Answers = std::vector<std::pair<std::string, std::string>>;  // words, each with its description

// The option of that name, or null.
const OptionHelp* FindOption(const std::vector<OptionHelp>& options, const std::string& name) {
  const auto named = [&name](const OptionHelp& option) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  };
  const auto found = std::find_if(options.begin(), options.end(), named);
  return found == options.end() ? nullptr : &*found;
}

bool WantsValue(const std::vector<OptionHelp>& options, const std::string& word) {
  const OptionHelp* const option = FindOption(options, word);
  return option != nullptr && option->takes_value;
}

// The argument at the position after `words`, or null.
const OptionHelp* NextArgument(const std::vector<OptionHelp>& options, const std::vector<std::string>& words) {
  size_t before = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (WantsValue(options, words[i])) {
      ++i;
    } else if (!words[i].starts_with('-')) {
      ++before;
    }
  }
  const OptionHelp* last = nullptr;  // may be repeated
  for (const OptionHelp& option : options) {
    if (!option.group.empty()) break;
    last = &option;
    if (before-- == 0) break;
  }
  return last;
}

// The option's words, in place of the value in `word` from `before` on; earlier items of a list stay.
Answers Values(const OptionHelp& option, const std::string& word, size_t before) {
  const size_t comma = option.lists ? word.rfind(',') : std::string::npos;
  const std::string kept = word.substr(0, comma == std::string::npos || comma < before ? before : comma + 1);
  Answers answers;
  for (const std::string& each : option.words) answers.emplace_back(kept + each, "");
  return answers;
}

// Whether the next word belongs to the traced program.
bool IsOfProgram(const std::vector<OptionHelp>& options, const std::vector<std::string>& words) {
  OptionsWithValue with_value;
  for (const OptionHelp& option : options) {
    if (option.takes_value) with_value.insert(option.names.begin(), option.names.end());
  }
  const absl::StatusOr<RunArguments> split = SplitRunArguments(words, with_value);
  return !split.ok() || !split->program.empty();
}

// Follows verbs and their subverbs as long as the first of `words` name them, and removes these. Returns the verbs that
// may follow, null if options follow; `command` is the last verb. Nothing: there is no such verb.
std::optional<const std::vector<const Command*>*> FollowVerbs(std::vector<std::string>* words,
                                                              const Command** command) {
  const std::vector<const Command*>* commands = &Commands();
  while (commands != nullptr && !words->empty()) {
    const std::string name = *command == nullptr ? words->front() : absl::StrCat((*command)->name, " ", words->front());
    const auto found =
        std::find_if(commands->begin(), commands->end(), [&](const Command* each) { return each->name == name; });
    if (found == commands->end()) return std::nullopt;
    *command = *found;
    words->erase(words->begin());
    commands = (*command)->under == nullptr ? nullptr : &(*command)->under();
  }
  return commands;
}

Answers OptionsAndValues(const Command& command, const std::vector<std::string>& words, const std::string& word) {
  const std::vector<OptionHelp> options = HelpOf(command).options;
  if (&command == &kRunCommand && IsOfProgram(options, words)) return {};
  if (!words.empty() && WantsValue(options, words.back())) return Values(*FindOption(options, words.back()), word, 0);
  if (!word.starts_with('-')) {
    const OptionHelp* const argument = NextArgument(options, words);
    return argument == nullptr ? Answers() : Values(*argument, word, 0);
  }
  if (const size_t equals = word.find('='); equals != std::string::npos) {
    const std::string name = word.substr(0, equals);
    const OptionHelp* const option = FindOption(options, name);
    return option == nullptr || name == option->negation ? Answers() : Values(*option, word, equals + 1);
  }
  Answers answers;
  for (const OptionHelp& option : options) {
    if (option.group.empty()) continue;
    for (const std::string& name : option.names) answers.emplace_back(name, option.text);
  }
  return answers;
}

// Completions of `word`, which follows `words`.
Answers AnswersFor(std::vector<std::string> words, const std::string& word) {
  const Command* command = nullptr;
  auto commands = FollowVerbs(&words, &command);
  if (command == &kHelpCommand && !word.starts_with('-')) {
    command = nullptr;
    commands = FollowVerbs(&words, &command);
    if (commands.has_value() && *commands == nullptr) return {};
  }
  if (!commands.has_value()) return {};
  Answers answers;
  if (*commands == nullptr) {
    answers = OptionsAndValues(*command, words, word);
  } else {
    const size_t before = command == nullptr ? 0 : std::string_view(command->name).size() + 1;
    for (const Command* each : **commands) answers.emplace_back(each->name + before, each->description);
  }
  std::erase_if(answers, [&](const auto& answer) { return !answer.first.starts_with(word); });
  return answers;
}

int RunCompletions(const std::vector<std::string>& args) {
  if (args.size() > 1 && args[0] == kWords) {
    std::string text;
    for (const auto& [answer, what] : AnswersFor({args.begin() + 1, args.end() - 1}, args.back())) {
      absl::StrAppend(&text, answer, "\t", what, "\n");
    }
    return WriteStandardOutput(text, kExitTrouble);
  }
  std::string shell;
  const auto app = MakeApp(kCompletionsCommand, "SHELL",
                           "Examples:\n"
                           "  source <(torchtrace completions bash)\n"
                           "  torchtrace completions fish > ~/.config/fish/completions/torchtrace.fish");
  app->add_option("SHELL", shell, "bash, zsh or fish")->required()->check(OneOf(Scripts()));
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  return WriteStandardOutput(*Scripts().Parse(shell), kExitTrouble);
}

}  // namespace

const Command kCompletionsCommand = {"completions", "Print a script that makes a shell complete commands", "General",
                                     RunCompletions};

}  // namespace torchtrace
