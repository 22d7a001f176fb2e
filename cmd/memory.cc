// `torchtrace memory`.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/reading_options.h"
#include "serialize/reports/memory_report.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr char kMemoryFooter[] =
    "Needs a run with --memory; kinds need levels 1 and 2, or 4, modules level 3, lines --stacks.\n\n"
    "Examples:\n"
    "  torchtrace memory out\n"
    "  torchtrace memory out --by module\n"
    "  torchtrace memory out --by kind --format json";

int RunMemory(const std::vector<std::string>& args) {
  std::string path, by = "api", format = "text";
  bool quiet = false;
  MemoryOptions options;
  const auto app = MakeApp(kMemoryCommand, "[OPTIONS] TRACE", kMemoryFooter);
  app->add_option("TRACE", path, kTraceText)->required();
  app->add_option("--by", by, "Who made it: api, module, line (of the program) or kind alone (default: api)")
      ->option_text("WHAT")
      ->check(OneOf(MemoryGroupings()));
  app->add_option("--top", options.top, "The N largest rows of each device; 0: all (default: 20)")
      ->option_text("N")
      ->check(IsCount());
  app->add_option("--format", format, "text or json (default: text)")
      ->option_text("FORMAT")
      ->check(OneOf(TextOrJson()));
  AddQuiet(app.get(), &quiet);
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;
  options.by = *MemoryGroupings().Parse(by);
  options.json = *TextOrJson().Parse(format);

  ReadingProgress progress(quiet, 1);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = progress.Open(path);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  StandardOutput out;
  std::vector<std::string> notes;
  const absl::Status written = WriteMemory(trace->get(), path, options, &out, &notes);
  Remarks remarks;
  if (written.ok()) remarks.Add(path, **trace);
  remarks.Add(notes);
  const int exit_code = out.Finish(written.ok() ? remarks.Check() : written);
  if (exit_code == kExitOk) remarks.Tell(quiet);
  return exit_code;
}

}  // namespace

const Command kMemoryCommand = {"memory", "Show the most memory that a program had, and who had made it", "Read",
                                RunMemory};

}  // namespace torchtrace
