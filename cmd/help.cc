// `torchtrace help`: the first page, or a verb's own help.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"

namespace torchtrace {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  torchtrace run train.py --lr 0.1          run it as python would, and record torch's API calls\n"
    "  torchtrace run -l 1,2 -o out train.py     the operators below them as well, into the folder out\n"
    "  torchtrace run -m mypackage.train         a module\n"
    "  torchtrace stats out                      which APIs were called, how often, for how long\n"
    "  torchtrace dump out --calls 0-99          the first hundred calls, nested\n";

std::string FirstPage() {
  std::string page =
      "torchtrace records every API and operator call of a PyTorch program.\n\n"
      "Usage: torchtrace VERB [OPTIONS] ...\n";
  std::string group;
  for (const Command* command : Commands()) {
    if (group != command->group) absl::StrAppend(&page, "\n", group = command->group, ":\n");
    absl::StrAppend(&page, TwoColumns(absl::StrCat("  ", command->name), command->description, 12));
  }
  absl::StrAppend(&page, "\n", kExamples, "\n`torchtrace help VERB` tells a verb's options.\n");
  return page;
}

int Run(const std::vector<std::string>& args) {
  if (!args.empty() && args[0][0] != '-') {
    const Command* const command = FindCommand(args[0]);
    if (command == nullptr) {
      return Fail(kExitTrouble, absl::StrCat("unknown verb '", args[0], "'", SuggestCommand(args[0])));
    }
    if (args.size() == 1) return command->run({"--help"});
  }
  std::string verb;
  const auto app = MakeApp(kHelpCommand, "[VERB]");
  app->add_option("VERB", verb, "A verb whose options to tell");
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  return WriteStandardOutput(FirstPage(), kExitTrouble);
}

}  // namespace

const Command kHelpCommand = {"help", "Tell what the verbs are, or the options of one", "General", Run};

}  // namespace torchtrace
