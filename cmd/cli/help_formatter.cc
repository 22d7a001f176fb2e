#include "cmd/cli/help_formatter.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace torchtrace {
namespace {

constexpr size_t kFirstColumn = 26;
constexpr size_t kLineWidth = 96;

// "-o, --output DIR", or "    --merge-output" without a short name.
std::string OptionHead(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  const std::vector<std::string>& shorts = option.get_snames();
  std::string head = shorts.empty() ? "    " : absl::StrCat("-", shorts.front(), ", ");
  const std::vector<std::string>& longs = option.get_lnames();
  for (size_t i = 0; i < longs.size(); ++i) absl::StrAppend(&head, i == 0 ? "" : ", ", "--", longs[i]);
  if (!option.get_option_text().empty()) absl::StrAppend(&head, " ", option.get_option_text());
  return head;
}

std::string OptionText(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_envname().empty()) absl::StrAppend(&text, " [env: ", option.get_envname(), "]");
  return text;
}

std::string Group(const std::string& title, const std::vector<const CLI::Option*>& options) {
  std::string out = absl::StrCat("\n", title, ":\n");
  for (const CLI::Option* option : options) {
    absl::StrAppend(&out, TwoColumns(absl::StrCat("  ", OptionHead(*option)), OptionText(*option), kFirstColumn));
  }
  return out;
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

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
  std::string out = absl::StrCat("Usage: ", app->get_name(), " ", usage_, "\n\n", app->get_description(), ".\n");
  const auto positionals = app->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (!positionals.empty()) absl::StrAppend(&out, Group("Arguments", positionals));
  for (const std::string& group : app->get_groups()) {
    const auto options = app->get_options(
        [&](const CLI::Option* option) { return option->get_group() == group && option->nonpositional(); });
    if (!group.empty() && !options.empty()) absl::StrAppend(&out, Group(group, options));
  }
  if (!app->get_footer().empty()) absl::StrAppend(&out, "\n", app->get_footer(), "\n");
  return out;
}

}  // namespace torchtrace
