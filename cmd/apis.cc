// `torchtrace apis`: dispatches to the verbs under it.

#include "cmd/apis.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "serialize/base/matching.h"

namespace torchtrace {
namespace {

const std::vector<const Command*>& ApisCommands() {
  static const std::vector<const Command*> commands = {&kApisNameCommand, &kApisCoverageCommand, &kApisScanCommand};
  return commands;
}

std::string ShortName(const Command& command) { return std::string(command.name).substr(sizeof "apis " - 1); }

std::string Page() {
  std::string page =
      "The APIs of a library: their names, and which of them traces called.\n\nUsage: torchtrace apis VERB [OPTIONS] "
      "...\n\n";
  for (const Command* command : ApisCommands()) {
    absl::StrAppend(&page, TwoColumns(absl::StrCat("  ", ShortName(*command)), command->description, 12));
  }
  return absl::StrCat(page, "\n`torchtrace apis VERB --help` prints a verb's options.\n");
}

int RunApis(const std::vector<std::string>& args) {
  std::vector<std::string> names;
  for (const Command* command : ApisCommands()) {
    names.push_back(ShortName(*command));
    if (!args.empty() && args[0] == names.back()) return command->run({args.begin() + 1, args.end()});
  }
  if (!args.empty() && (args[0] == "--help" || args[0] == "-h")) return WriteStandardOutput(Page(), kExitTrouble);
  const std::string what = args.empty()
                               ? "apis: no verb was given"
                               : absl::StrCat("apis: unknown verb '", args[0], "'", DidYouMean(args[0], names));
  return Fail(kExitTrouble, absl::StrCat(what, " (there are ", absl::StrJoin(names, ", "), ")", SeeHelp("apis")));
}

}  // namespace

const Command kApisCommand = {"apis", "The APIs of a library: names, lists, coverage of traces", "Read", RunApis,
                              ApisCommands};

}  // namespace torchtrace
