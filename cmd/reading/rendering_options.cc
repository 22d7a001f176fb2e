#include "cmd/reading/rendering_options.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cmd/cli/options.h"

namespace torchtrace {
namespace {

// Into whatever has members of these names.
template <typename Options>
std::vector<CLI::Option*> AddFiles(CLI::App* app, Options* options) {
  return {
      app->add_option("--formats", options->formats,
                      absl::StrCat("Files to render (default: all): ", RenderFormats::Choices()))
          ->option_text("LIST")
          ->check(Checked([](const std::string& text) { return RenderFormats::Parse(text); })),
      app->add_option(
             "--render-limit", options->render_limit,
             absl::StrCat("Beyond N calls, leave out the files that list every call; `torchtrace render` makes "
                          "them later (default: ",
                          kDefaultRenderLimit, ")"))
          ->option_text("N")
          ->check(IsCount()),
      app->add_flag("--merge-output,!--no-merge-output", options->merge_output,
                    "All levels in one set of files (the default), or one set for each level"),
      app->add_flag("--readable", options->readable,
                    "Others may read the trace, as your umask has it; else only you may: it holds paths and strings"),
  };
}

}  // namespace

void RenderingOptions::AddTo(CLI::App* app) {
  AddFiles(app, this);
  app->add_flag("-q,--quiet", quiet, "Say nothing but errors");
}

void AddRenderingOptions(CLI::App* app, RecordingOptions* options, const std::string& group) {
  for (CLI::Option* const option : AddFiles(app, options)) {
    const std::string name = absl::AsciiStrToUpper(option->get_lnames().front());
    option->envname(absl::StrCat("TORCHTRACE_", absl::StrReplaceAll(name, {{"-", "_"}})))->group(group);
  }
}

void RenderingOptions::Apply(RenderOptions* options) const {
  options->formats = *RenderFormats::Parse(formats);
  options->render_limit = render_limit;
  options->merge_output = merge_output;
}

}  // namespace torchtrace
