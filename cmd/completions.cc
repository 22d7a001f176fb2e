// `torchtrace completions`: a script for a shell, which asks the same verb what may follow the words
// that were typed.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/run/run_request.h"
#include "serialize/base/matching.h"

namespace torchtrace {
namespace {

// Before the words; the last of these is the one that the cursor stands in.
constexpr char kWords[] = "words";

// Without an answer of ours all three complete names of files.
constexpr std::pair<const char*, const char*> kScripts[] = {
    {"bash", R"sh(_torchtrace() {
  local word
  # Bash takes options with a value, --levels=1, apart.
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]/#\~/$HOME}" completions words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
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
};

using Answers = std::vector<std::pair<std::string, std::string>>;  // each with what it is

// What of `words` is an option that wants its value in the next word.
bool WantsValue(const std::vector<OptionHelp>& options, const std::string& word) {
  return std::any_of(options.begin(), options.end(), [&](const OptionHelp& option) {
    return option.takes_value && std::find(option.names.begin(), option.names.end(), word) != option.names.end();
  });
}

// Whether what is typed next is the traced program's own.
bool IsOfProgram(const std::vector<OptionHelp>& options, const std::vector<std::string>& words) {
  OptionsWithValue with_value;
  for (const OptionHelp& option : options) {
    if (option.takes_value) with_value.insert(option.names.begin(), option.names.end());
  }
  const absl::StatusOr<RunArguments> split = SplitRunArguments(words, with_value);
  return !split.ok() || !split->program.empty();
}

// What may stand in place of `word`, behind `words`.
Answers AnswersFor(std::vector<std::string> words, const std::string& word) {
  Answers answers;
  const std::vector<const Command*>* commands = &Commands();
  const Command* command = nullptr;
  std::string prefix;  // of their names
  while (commands != nullptr && !words.empty()) {
    const auto found = std::find_if(commands->begin(), commands->end(),
                                    [&](const Command* each) { return each->name == prefix + words[0]; });
    if (found == commands->end()) return {};
    command = *found;
    words.erase(words.begin());
    prefix = absl::StrCat(command->name, " ");
    commands = command->under == nullptr ? nullptr : &command->under();
  }
  if (command == &kHelpCommand && words.empty() && !word.starts_with('-')) {
    commands = &Commands();
    prefix.clear();
  }
  if (commands != nullptr) {
    for (const Command* each : *commands) {
      answers.emplace_back(std::string(each->name).substr(prefix.size()), each->description);
    }
  } else {
    const std::vector<OptionHelp> options = HelpOf(*command).options;
    if (!word.starts_with('-') || (!words.empty() && WantsValue(options, words.back()))) return {};
    if (command == &kRunCommand && IsOfProgram(options, words)) return {};
    for (const OptionHelp& option : options) {
      if (option.group.empty()) continue;
      for (const std::string& name : option.names) answers.emplace_back(name, option.text);
    }
  }
  std::erase_if(answers, [&](const auto& answer) { return !answer.first.starts_with(word); });
  return answers;
}

int Run(const std::vector<std::string>& args) {
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
  app->add_option("SHELL", shell, "bash, zsh or fish")->required();
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  std::vector<std::string> names;
  for (const auto& [name, script] : kScripts) {
    if (shell == name) return WriteStandardOutput(script, kExitTrouble);
    names.emplace_back(name);
  }
  return Fail(kExitTrouble, absl::StrCat("there are completions for bash, zsh and fish, not for '", shell, "'",
                                         DidYouMean(shell, names), SeeHelp("completions")));
}

}  // namespace

const Command kCompletionsCommand = {"completions", "Write a script that has a shell complete what is typed", "General",
                                     Run};

}  // namespace torchtrace
