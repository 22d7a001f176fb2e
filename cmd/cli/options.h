// How every verb reads its options: CLI11 with our conventions. Options are
// declared once, on a CLI::App, and both parsing and help come from there.
//
// CLI11's exceptions end here.

#ifndef TORCHTRACE_CMD_CLI_OPTIONS_H_
#define TORCHTRACE_CMD_CLI_OPTIONS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "cmd/cli/command.h"

namespace torchtrace {

// An app for `torchtrace VERB`. `usage` is the first line of its help, without
// the program's name; `footer` stands under the options.
std::unique_ptr<CLI::App> MakeApp(const Command& command, const std::string& usage, const std::string& footer = "");

// Fills in what the app's options are bound to. The verb is done, with the
// exit code returned, after --help and after an error, which was said.
std::optional<int> ParseOptions(CLI::App* app, const std::vector<std::string>& args, int usage_exit_code);

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

// The check of a number of things: digits, and nothing else.
CLI::Validator IsCount();

// The check of the name of a file or folder: that there is one (a script's variable may be empty).
CLI::Validator IsName();

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_OPTIONS_H_
