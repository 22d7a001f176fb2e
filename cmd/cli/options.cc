#include "cmd/cli/options.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "CLI/Config.hpp"
#include "CLI/Error.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/FormatterFwd.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cmd/cli/output.h"
#include "serialize/base/command_name.h"
#include "serialize/base/matching.h"

namespace torchtrace {
namespace {

constexpr char kName[] = "torchtrace";
constexpr size_t kFirstColumn = 26;
constexpr size_t kLineWidth = 96;

// Where the help goes that a verb is asked for, if not to standard output.
VerbHelp* g_asked_for_help = nullptr;

// Keeps what an app itself has no place for.
class Usage : public CLI::FormatterBase {
 public:
  explicit Usage(std::string usage) : usage(std::move(usage)) {}
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

  const std::string usage;
};

OptionHelp HelpOfOption(const CLI::Option& option) {
  OptionHelp help;
  help.text = option.get_description();
  if (option.get_positional()) {
    help.names = {option.get_name(true)};
    return help;
  }
  help.group = option.get_group();
  for (const std::string& name : option.get_snames()) help.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) help.names.push_back("--" + name);
  help.value = option.get_option_text();
  help.takes_value = option.get_items_expected_max() > 0;
  if (!option.get_envname().empty()) absl::StrAppend(&help.text, " [env: ", option.get_envname(), "]");
  return help;
}

// Arguments first, then groups as they are first used.
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

// The sentence for what CLI11 could not place.
std::string UnexpectedMessage(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return "too many arguments";
  const auto dashed =
      std::find_if(rest.begin(), rest.end(), [](const std::string& arg) { return arg.size() > 1 && arg[0] == '-'; });
  if (dashed == rest.end()) return absl::StrCat("unexpected argument '", rest.front(), "'");
  const std::string name = dashed->substr(0, dashed->find('='));
  return absl::StrCat("unknown option ", name, DidYouMean(name, OptionNames(app)));
}

// The sentence for a value that is wrong, by the name under which it was given: an option's, or its variable's.
std::string WrongValueMessage(const CLI::App& app, const std::vector<std::string>& args, std::string message) {
  constexpr std::string_view kOfFlags = "Could not convert: ";  // CLI11's own: `... --quiet = maybe`
  if (const size_t equals = message.find(" = "); message.starts_with(kOfFlags) && equals != std::string::npos) {
    message = absl::StrCat(message.substr(kOfFlags.size(), equals - kOfFlags.size()), ": '", message.substr(equals + 3),
                           "' is neither yes nor no");
  }
  const std::string name = message.substr(0, message.find(':'));
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr || option->get_envname().empty() || getenv(option->get_envname().c_str()) == nullptr) {
    return message;
  }
  const bool given = std::any_of(args.begin(), args.end(), [&](const std::string& arg) {
    const auto starts = [&arg](const char* dashes) {
      return [&arg, dashes](const std::string& each) { return arg.starts_with(dashes + each); };
    };
    return std::any_of(option->get_lnames().begin(), option->get_lnames().end(), starts("--")) ||
           std::any_of(option->get_snames().begin(), option->get_snames().end(), starts("-"));
  });
  return given ? message : option->get_envname() + message.substr(name.size());
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
    return usage_error(WrongValueMessage(*app, args, error.what()));
  }
}

CLI::Validator IsCount(uint64_t least) {
  return CLI::Validator(
      [least](const std::string& text) {
        uint64_t count;
        const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
        if (!digits || !absl::SimpleAtoi(text, &count)) return absl::StrCat("'", text, "' is no count");
        return count >= least ? std::string() : absl::StrCat("'", text, "' is less than ", least);
      },
      "");
}

CLI::Validator IsList() {
  return CLI::Validator(
      [](const std::string& text) {
        return SplitLists({text}).empty() ? absl::StrCat("'", text, "' names nothing") : std::string();
      },
      "");
}

CLI::Validator IsName() {
  return CLI::Validator([](const std::string& text) { return text.empty() ? "the name is empty" : ""; }, "");
}

}  // namespace torchtrace
