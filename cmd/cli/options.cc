#include "cmd/cli/options.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Error.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Option.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "cmd/cli/output.h"
#include "cmd/cli/verb_host.h"
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

bool IsFlag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// Whether this name of a flag, without dashes, means no.
bool Negates(const CLI::Option& option, const std::string& name) {
  return IsFlag(option) && option.get_flag_value(name, "") == "false";
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

CLI::Validator ValidatorOf(std::function<std::string(std::string&)> run) {
  return run == nullptr ? CLI::Validator() : CLI::Validator(std::move(run), "");
}

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
  if (VerbHost::Current() != nullptr) return "";
  return absl::StrCat(" (see ", CommandName(), " ", verb, verb.empty() ? "" : " ", "--help)");
}

Option* Option::option_text(const std::string& placeholder) {
  option_->option_text(placeholder);
  return this;
}
Option* Option::envname() {
  option_->envname(absl::StrCat("TORCHTRACE_", absl::StrReplaceAll(absl::AsciiStrToUpper(long_name()), {{"-", "_"}})));
  return this;
}
Option* Option::group(const std::string& heading) {
  option_->group(heading);
  return this;
}
Option* Option::check(Check check) {
  check.replaces ? option_->transform(ValidatorOf(std::move(check.run)))
                 : option_->check(ValidatorOf(std::move(check.run)));
  has_check_ = true;
  words_ = std::move(check.words);
  lists_ = check.lists;
  return this;
}
Option* Option::needs(Option* other) {
  option_->needs(other->option_);
  return this;
}
Option* Option::excludes(Option* other) {
  option_->excludes(other->option_);
  return this;
}
Option* Option::required() {
  option_->required();
  return this;
}
Option* Option::allow_extra_args(bool allow) {
  option_->allow_extra_args(allow);
  return this;
}
size_t Option::count() const { return option_->count(); }
std::string Option::long_name() const { return option_->get_lnames().front(); }

OptionHelp Option::Help() const {
  OptionHelp help;
  help.text = option_->get_description();
  if (words_ != nullptr) help.words = words_();
  help.lists = lists_;
  if (option_->get_positional()) {
    help.names = {option_->get_name(true)};
    return help;
  }
  help.group = option_->get_group();
  for (const std::string& name : option_->get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option_->get_lnames()) {
    help.names.push_back("--" + name);
    if (Negates(*option_, name)) help.negation = help.names.back();
  }
  help.value = option_->get_option_text();
  help.takes_value = !IsFlag(*option_);
  if (!option_->get_envname().empty()) absl::StrAppend(&help.text, " [env: ", option_->get_envname(), "]");
  return help;
}

App::App(const Command& command, const std::string& usage, const std::string& footer)
    : parser_(std::make_unique<CLI::App>(command.description, absl::StrCat(kName, " ", command.name))), usage_(usage) {
  parser_->footer(footer);
  options_.emplace_back(parser_->set_help_flag("-h,--help", "Show this help"));
}
App::~App() = default;

template <typename Value>
Option* App::add_option(const std::string& names, Value& value, const std::string& text) {
  return &options_.emplace_back(parser_->add_option(names, value, text));
}
template <typename Value>
Option* App::add_flag(const std::string& names, Value& value, const std::string& text) {
  return &options_.emplace_back(parser_->add_flag(names, value, text));
}
template Option* App::add_option(const std::string&, std::string&, const std::string&);
template Option* App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option* App::add_option(const std::string&, int&, const std::string&);
template Option* App::add_option(const std::string&, int64_t&, const std::string&);
template Option* App::add_option(const std::string&, uint32_t&, const std::string&);
template Option* App::add_option(const std::string&, uint64_t&, const std::string&);
template Option* App::add_option(const std::string&, std::optional<uint64_t>&, const std::string&);
template Option* App::add_option(const std::string&, double&, const std::string&);
template Option* App::add_flag(const std::string&, bool&, const std::string&);
template Option* App::add_flag(const std::string&, int&, const std::string&);
template Option* App::add_flag(const std::string&, std::string&, const std::string&);

const Option& App::at(const std::string& long_name) const {
  const CLI::Option* const found = parser_->get_option(long_name);
  return *std::find_if(options_.begin(), options_.end(), [&](const Option& each) { return &each.parsed() == found; });
}

std::vector<std::string> App::Variables() const {
  std::vector<std::string> variables;
  for (const Option& option : options_) {
    if (!option.parsed().get_envname().empty()) variables.push_back(option.parsed().get_envname());
  }
  return variables;
}

std::set<std::string> App::NamesWithValue() const {
  std::set<std::string> names;
  for (const Option& option : options_) {
    if (IsFlag(option.parsed())) continue;
    for (const std::string& name : option.parsed().get_snames()) names.insert("-" + name);
    for (const std::string& name : option.parsed().get_lnames()) names.insert("--" + name);
  }
  return names;
}

// Arguments first, then groups in the order of first use.
VerbHelp App::Help() const {
  VerbHelp help = {parser_->get_name(), usage_, parser_->get_description(), {}, parser_->get_footer()};
  for (const Option& option : options_) {
    if (option.parsed().get_positional()) help.options.push_back(option.Help());
  }
  for (const std::string& group : parser_->get_groups()) {
    for (const Option& option : options_) {
      const CLI::Option& parsed = option.parsed();
      if (!group.empty() && parsed.nonpositional() && parsed.get_group() == group)
        help.options.push_back(option.Help());
    }
  }
  return help;
}

std::optional<int> ParseOptions(App* app, const std::vector<std::string>& args, int usage_exit_code) {
  CLI::App* const parser = app->parser_.get();
  const auto usage_error = [&](const std::string& what) {
    return Fail(usage_exit_code, absl::StrCat(what, SeeHelp(parser->get_name().substr(sizeof kName))));
  };
  for (Option& option : app->options_) {
    // Not flags with a check of their own, or those that count.
    const bool counts = option.parsed().get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (IsFlag(option.parsed()) && !counts && !option.has_check()) option.check(CheckYesOrNo);
  }
  if (const std::string wrong = FlagsMessage(*parser, args); !wrong.empty()) return usage_error(wrong);
  try {
    parser->parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    if (g_asked_for_help != nullptr) {
      *g_asked_for_help = app->Help();
      return kExitOk;
    }
    return WriteStandardOutput(HelpPage(app->Help()), usage_exit_code);
  } catch (const CLI::ExtrasError&) {
    return usage_error(UnexpectedMessage(*parser));
  } catch (const CLI::Error& error) {
    const std::string message = error.what();
    // A misspelled option may cause the other errors.
    if (HasUnknownOption(*parser)) return usage_error(UnexpectedMessage(*parser));
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error)) return usage_error(MismatchMessage(*parser, message));
    if (dynamic_cast<const CLI::RequiresError*>(&error))
      return usage_error(absl::StrReplaceAll(message, {{" requires ", " needs "}}));
    if (dynamic_cast<const CLI::ExcludesError*>(&error)) return usage_error(ExcludesMessage(message));
    return usage_error(WrongValueMessage(*parser, args, message));
  }
  const absl::Status status = app->last_check_ == nullptr ? absl::OkStatus() : app->last_check_();
  if (!status.ok()) return usage_error(std::string(status.message()));
  return std::nullopt;
}

bool IsTyped(const Option& option, const std::vector<std::string>& args) {
  return !TypedNames(option.parsed(), args).empty();
}

Check IsCount(uint64_t least, uint64_t most) {
  return [least, most](const std::string& text) {
    uint64_t count;
    const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
    if (!digits) return absl::StrCat("'", text, "' is not a count");
    if (!absl::SimpleAtoi(text, &count) || count > most) return absl::StrCat("'", text, "' is more than ", most);
    return count >= least ? std::string() : absl::StrCat("'", text, "' is less than ", least);
  };
}

Check IsList() {
  return [](const std::string& text) {
    return SplitLists({text}).empty() ? absl::StrCat("'", text, "' is an empty list") : std::string();
  };
}

Check IsSize(uint64_t least) {
  Check check = [least](std::string& text) {
    const absl::StatusOr<uint64_t> bytes = ParseSize(text);
    if (!bytes.ok()) return std::string(bytes.status().message());
    if (*bytes < least) return absl::StrCat("'", text, "' is less than ", least >> 20, " MiB");
    text = absl::StrCat(*bytes);
    return std::string();
  };
  check.replaces = true;
  return check;
}

Check IsSeconds(double least, int64_t most) {
  return [least, most](const std::string& text) {
    double seconds = 0;
    const bool fits = absl::SimpleAtod(text, &seconds) && seconds >= least && seconds <= most;
    return fits ? std::string() : absl::StrCat("'", text, "' is not a number of seconds from ", least, " to ", most);
  };
}

absl::StatusOr<int64_t> ParseNanoseconds(const std::string& text, int64_t least_ns) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() || duration >= absl::Hours(1'000'000)) {
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a time such as 50us, 1.5ms or 2s"));
  }
  const int64_t ns = absl::ToInt64Nanoseconds(duration);
  if (ns >= least_ns) return ns;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is less than ", FormatDuration(least_ns)));
}

Check IsFolderName() {
  return [](const std::string& text) {
    if (text == "-") return "a folder can't go to standard output: give a name";
    return text.empty() ? "the name is empty" : "";
  };
}

Check IsName() {
  return [](const std::string& text) { return text.empty() ? "the name is empty" : ""; };
}

}  // namespace torchtrace
