// `torchtrace help`: the first page, a verb's own help, or all of it as a manual page.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "tracer/launch/run_metadata.h"

namespace torchtrace {
namespace {

constexpr char kWhat[] = "torchtrace records every API and operator call of a PyTorch program.";
constexpr char kExamples[] =
    "  torchtrace run train.py --lr 0.1          run it as python would, and record torch's API calls\n"
    "  torchtrace run -l 1,2 -o out train.py     the operators below them as well, into the folder out\n"
    "  torchtrace run -m mypackage.train         a module\n"
    "  torchtrace stats out                      which APIs were called, how often, for how long\n"
    "  torchtrace dump out --calls 0-99          the first hundred calls, nested\n";

std::string FirstPage() {
  std::string page = absl::StrCat(kWhat, "\n\nUsage: torchtrace VERB [OPTIONS] ...\n");
  std::string group;
  for (const Command* command : Commands()) {
    if (group != command->group) absl::StrAppend(&page, "\n", group = command->group, ":\n");
    absl::StrAppend(&page, TwoColumns(absl::StrCat("  ", command->name), command->description, 15));
  }
  absl::StrAppend(&page, "\nExamples:\n", kExamples,
                  "\n`torchtrace help VERB` prints a verb's options, `torchtrace --help-all` those of all verbs.\n");
  return page;
}

// The pages of all verbs, separated by lines.
std::string AllPages() {
  std::string pages = FirstPage();
  for (const Command* command : CommandsWithOptions()) {
    absl::StrAppend(&pages, "\n", std::string(80, '-'), "\n\n", HelpPage(HelpOf(*command)));
  }
  return pages;
}

// Escapes text for roff, the language of manual pages, so that no word of it is a request.
std::string Roff(const std::string& text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

// Text whose line breaks stay.
std::string RoffLines(const std::string& text) {
  return absl::StrCat(".nf\n", Roff(text), text.ends_with('\n') ? "" : "\n", ".fi\n");
}

std::string ManualPage() {
  std::string page = absl::StrCat(".TH TORCHTRACE 1 \"\" \"torchtrace ", kVersion, "\" \"User Commands\"\n",
                                  ".SH NAME\ntorchtrace \\- strace for PyTorch\n",
                                  ".SH SYNOPSIS\n.B torchtrace\n.I VERB\n[OPTIONS] ...\n", ".SH DESCRIPTION\n",
                                  Roff(kWhat), "\n.SH VERBS\n");
  for (const Command* command : CommandsWithOptions()) {
    const VerbHelp help = HelpOf(*command);
    absl::StrAppend(&page, ".SS \"", Roff(command->name), "\"\n.B ", Roff(help.name), "\n", Roff(help.usage), "\n.PP\n",
                    Roff(help.description), ".\n");
    std::string heading;
    for (const OptionHelp& option : help.options) {
      if (option.group != heading) {
        absl::StrAppend(&page, ".PP\n", Roff(heading = option.group), ":\n");
      }
      absl::StrAppend(&page, ".TP\n.B ", Roff(absl::StrJoin(option.names, ", ")),
                      option.value.empty() ? "" : absl::StrCat(" \\fI", Roff(option.value), "\\fR"), "\n",
                      Roff(option.text), "\n");
    }
    if (!help.footer.empty()) absl::StrAppend(&page, ".PP\n", RoffLines(help.footer));
  }
  absl::StrAppend(&page, ".SH EXAMPLES\n", RoffLines(kExamples));
  return page;
}

int RunHelp(const std::vector<std::string>& args) {
  if (!args.empty() && args[0][0] != '-') {
    const Command* const command = FindCommand(args[0]);
    if (command == nullptr) {
      return Fail(kExitTrouble, absl::StrCat("unknown verb '", args[0], "'", SuggestCommand(args[0])));
    }
    if (args.size() == 1) return command->run({"--help"});
    if (args.size() == 2 && command->under != nullptr) return command->run({args[1], "--help"});
  }
  std::string verb;
  bool all = false, manual = false;
  const auto app = MakeApp(kHelpCommand, "[VERB | apis VERB | --all | --man]");
  app->add_option("VERB", verb, "The verb whose options to print");
  app->add_flag("--all", all, "Print all verbs and their options, like torchtrace --help-all");
  app->add_flag("--man", manual, "Write the manual page of all verbs, in roff: torchtrace help --man | man -l -");
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  if (int{!verb.empty()} + int{all} + int{manual} > 1) {
    return Fail(kExitTrouble,
                absl::StrCat("VERB, --all and --man each print another page: give one of them", SeeHelp("help")));
  }
  if (!verb.empty()) return RunHelp({verb});
  return WriteStandardOutput(manual ? ManualPage() : all ? AllPages() : FirstPage(), kExitTrouble);
}

}  // namespace

const Command kHelpCommand = {"help", "List the verbs, or the options of one", "General", RunHelp};

}  // namespace torchtrace
