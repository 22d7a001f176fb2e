// The command line's first word: a verb, or a question about torchtrace itself.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "serialize/base/matching.h"

namespace torchtrace {
namespace {

int Main(const std::vector<std::string>& args) {
  if (args.empty()) return Fail(kExitTrouble, "no verb was given (see torchtrace --help)");
  const std::string& word = args[0];
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (word == "-h" || word == "--help") return kHelpCommand.run(rest);
  if (word == "-V" || word == "--version") return kVersionCommand.run(rest);
  if (word.size() > 1 && word[0] == '-') {
    return Fail(kExitTrouble, absl::StrCat("unknown option ", word, DidYouMean(word, {"--help", "--version"}),
                                           " (a verb comes first, see torchtrace --help)"));
  }
  if (const Command* const command = FindCommand(word)) {
    // What signals and a lack of memory do to a traced program is its own matter.
    if (command != &kRunCommand) {
      MakeWritesFail();
      EndWithoutMemory();
    }
    return command->run(rest);
  }
  return Fail(kExitTrouble,
              absl::StrCat("unknown verb '", word, "'", SuggestCommand(word), " (see torchtrace --help)"));
}

}  // namespace
}  // namespace torchtrace

int main(int argc, char** argv) { return torchtrace::Main(std::vector<std::string>(argv + (argc > 0), argv + argc)); }
