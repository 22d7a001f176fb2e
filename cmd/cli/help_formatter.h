// How a verb's help looks: usage, description, arguments, then the options by
// group, with their texts wrapped and aligned and the environment variable that
// stands for each.

#ifndef TORCHTRACE_CMD_CLI_HELP_FORMATTER_H_
#define TORCHTRACE_CMD_CLI_HELP_FORMATTER_H_

#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/FormatterFwd.hpp"

namespace torchtrace {

class HelpFormatter : public CLI::FormatterBase {
 public:
  // What follows the app's name in the usage.
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {}

  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  const std::string usage_;
};

// `head` in a first column, `text` wrapped in a second.
std::string TwoColumns(const std::string& head, const std::string& text, size_t first_width);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_HELP_FORMATTER_H_
