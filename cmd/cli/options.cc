#include "cmd/cli/options.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "CLI/Config.hpp"
#include "CLI/Error.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/FormatterFwd.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cmd/cli/output.h"
#include "serialize/base/command_name.h"
#include "serialize/base/matching.h"
#include "serialize/base/text.h"

namespace torchtrace {
namespace {

constexpr char kName[] = "torchtrace";
constexpr size_t kFirstColumn = 26;
constexpr size_t kLineWidth = 96;

// Receives the help of a verb in place of standard output, if set.
VerbHelp* g_asked_for_help = nullptr;

// Holds the usage line, for which CLI::App has no member.
class Usage : public CLI::FormatterBase {
 public:
  explicit Usage(std::string usage) : usage(std::move(usage)) {}
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

  const std::string usage;
};

// CLI11 describes a value by its type's name, to which checks append. A check with words to complete appends a line for
// each of them, preceded by kLists if the option takes lists.
constexpr char kLists = ',';

class WithWords : public CLI::Validator {
 public:
  WithWords(CLI::Validator check, bool lists, std::function<std::vector<std::string>()> words)
      : CLI::Validator(std::move(check)) {
    desc_function_ = [lists, words = std::move(words)] {
      return absl::StrCat(lists ? std::string(1, kLists) : "", "\n", absl::StrJoin(words(), "\n"));
    };
  }
};

void AddWords(const CLI::Option& option, OptionHelp* help) {
  const std::string type = option.get_type_name();
  const size_t line = type.find('\n');
  if (line == std::string::npos) return;
  help->lists = line > 0 && type[line - 1] == kLists;
  help->words = absl::StrSplit(type.substr(line + 1), '\n');
}

bool IsFlag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// Whether this name of a flag, without dashes, means no.
bool Negates(const CLI::Option& option, const std::string& name) {
  return IsFlag(option) && option.get_flag_value(name, "") == "false";
}

OptionHelp HelpOfOption(const CLI::Option& option) {
  OptionHelp help;
  help.text = option.get_description();
  AddWords(option, &help);
  if (option.get_positional()) {
    help.names = {option.get_name(true)};
    return help;
  }
  help.group = option.get_group();
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    help.names.push_back("--" + name);
    if (Negates(option, name)) help.negation = help.names.back();
  }
  help.value = option.get_option_text();
  help.takes_value = !IsFlag(option);
  if (!option.get_envname().empty()) absl::StrAppend(&help.text, " [env: ", option.get_envname(), "]");
  return help;
}

// Arguments first, then groups in the order of first use.
VerbHelp HelpOfApp(const CLI::App& app, const std::string& usage) {
  VerbHelp help = {app.get_name(), usage, app.get_description(), {}, app.get_footer()};
  const auto add = [&](const auto& belongs) {
    for (const CLI::Option* option : app.get_options(belongs)) help.options.push_back(HelpOfOption(*option));
  };
  add([](const CLI::Option* option) { return option->get_positional(); });
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;
    add([&](const CLI::Option* option) { return option->nonpositional() && option->get_group() == group; });
  }
  return help;
}

std::string Usage::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  return HelpPage(HelpOfApp(*app, usage));
}

std::string HeadingOf(const OptionHelp& option) { return option.group.empty() ? "Arguments" : option.group; }

// "-o, --output DIR", or "    --merge-output" without a short name.
std::string HeadOf(const OptionHelp& option) {
  std::string head = absl::StrJoin(option.names, ", ");
  if (head.starts_with("--")) head.insert(0, "    ");
  if (!option.value.empty()) absl::StrAppend(&head, " ", option.value);
  return head;
}

}  // namespace

std::string TwoColumns(const std::string& head, const std::string& text, size_t first_width) {
  std::string out = head;
  size_t column = head.size();
  if (column + 2 > first_width) {
    out += '\n';
    column = 0;
  }
  out.append(first_width - column, ' ');
  column = first_width;
  for (const auto word : absl::StrSplit(text, ' ')) {
    if (column > first_width && column + 1 + word.size() > kLineWidth) {
      absl::StrAppend(&out, "\n", std::string(first_width, ' '));
      column = first_width;
    }
    if (column > first_width) {
      out += ' ';
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out + '\n';
}

std::string HelpPage(const VerbHelp& help) {
  std::string out = absl::StrCat("Usage: ", help.name, " ", help.usage, "\n\n", help.description, ".\n");
  std::string heading;
  for (const OptionHelp& option : help.options) {
    if (HeadingOf(option) != heading) absl::StrAppend(&out, "\n", heading = HeadingOf(option), ":\n");
    absl::StrAppend(&out, TwoColumns(absl::StrCat("  ", HeadOf(option)), option.text, kFirstColumn));
  }
  if (!help.footer.empty()) absl::StrAppend(&out, "\n", help.footer, "\n");
  return out;
}

VerbHelp HelpOf(const Command& command) {
  VerbHelp help;
  g_asked_for_help = &help;
  command.run({"--help"});
  g_asked_for_help = nullptr;
  return help;
}

namespace {

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(absl::StrCat("--", name));
  }
  return names;
}

bool IsDashed(const std::string& arg) { return arg.size() > 1 && arg[0] == '-'; }

bool HasUnknownOption(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  return std::any_of(rest.begin(), rest.end(), IsDashed);
}

// The message for words that CLI11 could not assign.
std::string UnexpectedMessage(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return "too many arguments";
  const auto dashed = std::find_if(rest.begin(), rest.end(), IsDashed);
  if (dashed == rest.end()) return absl::StrCat("unexpected argument '", rest.front(), "'");
  const std::string name = dashed->substr(0, dashed->find('='));
  return absl::StrCat("unknown option ", name, DidYouMean(name, OptionNames(app)));
}

// The typed words that name the option: "--no-times", "--levels=1", "-l1".
std::vector<std::string> TypedNames(const CLI::Option& option, const std::vector<std::string>& args) {
  std::vector<std::string> typed;
  for (const std::string& arg : args) {
    if (arg == "--") break;
    const std::string name = arg.substr(0, arg.find('='));
    const auto is_long = [&name](const std::string& each) { return name == "--" + each; };
    const auto is_short = [&arg](const std::string& each) { return arg.starts_with("-" + each); };
    if (std::any_of(option.get_lnames().begin(), option.get_lnames().end(), is_long) ||
        std::any_of(option.get_snames().begin(), option.get_snames().end(), is_short)) {
      typed.push_back(arg);
    }
  }
  return typed;
}

// CLI11's message about a usage error begins with the option's name.
std::string NameIn(const std::string& message) { return message.substr(0, message.find_first_of(": ")); }

// The message for a missing value or for too many.
std::string MismatchMessage(const CLI::App& app, const std::string& message) {
  const std::string name = NameIn(message);
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr) return message;
  const std::string value = option->get_option_text();
  if (message.ends_with(" missing")) return absl::StrCat(name, " needs a value: ", name, " ", value);
  return absl::StrCat(name, " was given ", option->count(), " times; give one ", value.empty() ? "value" : value);
}

std::string ExcludesMessage(const std::string& message) {
  return absl::StrReplaceAll(message, {{" excludes ", " and "}}) + " can't be given together: give one of them";
}

// The message for a flag with its negation, or a negation with a value; else empty.
std::string FlagsMessage(const CLI::App& app, const std::vector<std::string>& args) {
  for (const CLI::Option* const option : app.get_options()) {
    if (!IsFlag(*option)) continue;
    std::string affirmed, negated;
    for (const std::string& arg : TypedNames(*option, args)) {
      if (!arg.starts_with("--")) continue;
      const std::string name = arg.substr(0, arg.find('='));
      const bool negates = Negates(*option, name.substr(2));
      if (negates && name != arg) return absl::StrCat(name, " takes no value");
      (negates ? negated : affirmed) = name;
    }
    if (!affirmed.empty() && !negated.empty()) {
      return absl::StrCat(affirmed, " and ", negated, " contradict each other: give one of them");
    }
  }
  return "";
}

// The message for a wrong value, with the name under which it was given: the option's, or its variable's.
std::string WrongValueMessage(const CLI::App& app, const std::vector<std::string>& args, const std::string& message) {
  const std::string name = NameIn(message);
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr || option->get_envname().empty() || getenv(option->get_envname().c_str()) == nullptr) {
    return message;
  }
  return TypedNames(*option, args).empty() ? option->get_envname() + message.substr(name.size()) : message;
}

// For flags given with a value, or by a variable.
std::string CheckYesOrNo(const std::string& text) {
  static const std::vector<std::string> answers = {"true", "false", "yes", "no", "on", "off", "1", "0"};
  const bool known = std::find(answers.begin(), answers.end(), absl::AsciiStrToLower(text)) != answers.end();
  return known ? "" : absl::StrCat("'", text, "' is not yes or no");
}

}  // namespace

std::string SeeHelp(const std::string& verb) {
  return absl::StrCat(" (see ", CommandName(), " ", verb, verb.empty() ? "" : " ", "--help)");
}

std::unique_ptr<CLI::App> MakeApp(const Command& command, const std::string& usage, const std::string& footer) {
  auto app = std::make_unique<CLI::App>(command.description, absl::StrCat(kName, " ", command.name));
  app->formatter(std::make_shared<Usage>(usage));
  app->footer(footer);
  app->set_help_flag("-h,--help", "Show this help");
  return app;
}

std::optional<int> ParseOptions(CLI::App* app, const std::vector<std::string>& args, int usage_exit_code) {
  const auto usage_error = [&](const std::string& what) {
    return Fail(usage_exit_code, absl::StrCat(what, SeeHelp(app->get_name().substr(sizeof kName))));
  };
  for (CLI::Option* const option : app->get_options({})) {
    // Not flags with a check of their own, or those that count.
    const bool counts = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (IsFlag(*option) && !counts && option->get_type_name().empty()) option->check(CheckYesOrNo);
  }
  if (const std::string wrong = FlagsMessage(*app, args); !wrong.empty()) return usage_error(wrong);
  try {
    app->parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    if (g_asked_for_help != nullptr) {
      *g_asked_for_help = HelpOfApp(*app, std::static_pointer_cast<Usage>(app->get_formatter())->usage);
      return kExitOk;
    }
    return WriteStandardOutput(app->help(), usage_exit_code);
  } catch (const CLI::ExtrasError&) {
    return usage_error(UnexpectedMessage(*app));
  } catch (const CLI::Error& error) {
    const std::string message = error.what();
    // A misspelled option may cause the other errors.
    if (HasUnknownOption(*app)) return usage_error(UnexpectedMessage(*app));
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return usage_error(MismatchMessage(*app, message));
    if (dynamic_cast<const CLI::RequiresError*>(&error))
      return usage_error(absl::StrReplaceAll(message, {{" requires ", " needs "}}));
    if (dynamic_cast<const CLI::ExcludesError*>(&error)) return usage_error(ExcludesMessage(message));
    return usage_error(WrongValueMessage(*app, args, message));
  }
}

bool IsTyped(const CLI::Option& option, const std::vector<std::string>& args) {
  return !TypedNames(option, args).empty();
}

CLI::Validator Completed(CLI::Validator check, std::function<std::vector<std::string>()> words) {
  return WithWords(std::move(check), /*lists=*/false, std::move(words));
}

CLI::Validator CompletedLists(CLI::Validator check, std::function<std::vector<std::string>()> words) {
  return WithWords(std::move(check), /*lists=*/true, std::move(words));
}

CLI::Validator IsCount(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        uint64_t count;
        const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
        if (!digits) return absl::StrCat("'", text, "' is not a count");
        if (!absl::SimpleAtoi(text, &count) || count > most) return absl::StrCat("'", text, "' is more than ", most);
        return count >= least ? std::string() : absl::StrCat("'", text, "' is less than ", least);
      },
      "");
}

CLI::Validator IsList() {
  return CLI::Validator(
      [](const std::string& text) {
        return SplitLists({text}).empty() ? absl::StrCat("'", text, "' is an empty list") : std::string();
      },
      "");
}

CLI::Validator IsSize(uint64_t least) {
  return CLI::Validator(
      [least](std::string& text) {
        const absl::StatusOr<uint64_t> bytes = ParseSize(text);
        if (!bytes.ok()) return std::string(bytes.status().message());
        if (*bytes < least) return absl::StrCat("'", text, "' is less than ", least >> 20, " MiB");
        text = absl::StrCat(*bytes);
        return std::string();
      },
      "");
}

CLI::Validator IsSeconds(double least, int64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        double seconds = 0;
        const bool fits = absl::SimpleAtod(text, &seconds) && seconds >= least && seconds <= most;
        return fits ? std::string()
                    : absl::StrCat("'", text, "' is not a number of seconds from ", least, " to ", most);
      },
      "");
}

CLI::Validator IsFolderName() {
  return CLI::Validator(
      [](const std::string& text) {
        if (text == "-") return "a folder can't go to standard output: give a name";
        return text.empty() ? "the name is empty" : "";
      },
      "");
}

CLI::Validator IsName() {
  return CLI::Validator([](const std::string& text) { return text.empty() ? "the name is empty" : ""; }, "");
}

}  // namespace torchtrace
