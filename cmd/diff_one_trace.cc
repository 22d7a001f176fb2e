#include "cmd/diff_one_trace.h"

#include <memory>
#include <utility>

#include "cmd/cli/output.h"
#include "cmd/cli/terminal.h"
#include "serialize/diff/rank_diff.h"
#include "serialize/diff/recomputed_diff.h"

namespace torchtrace {

int RunOneTraceDiff(OneTraceDiff kind, OneTraceDiffOptions options, CallSelectionOptions* selection, bool no_pager,
                    bool quiet) {
  options.scope.filter = selection->Globs();
  options.scope.levels = selection->Levels();
  ReadingProgress progress(quiet);
  if (absl::Status s = selection->CheckNames({options.name}, &progress); !s.ok()) return Fail(kExitTrouble, s);
  const absl::StatusOr<std::unique_ptr<Trace>> trace = selection->Open(options.name, &progress);
  if (!trace.ok()) return Fail(kExitTrouble, trace.status());
  absl::StatusOr<bool> different = false;
  Remarks remarks(selection);
  int exit_code;
  {
    const Pager pager(!no_pager);
    StandardOutput out(options.color ? StandardOutput::kColoredText : StandardOutput::kText, pager.fd());
    different = kind == OneTraceDiff::kAcrossRanks ? WriteRankDiff(trace->get(), options, &out)
                                                   : WriteRecomputedDiff(trace->get(), options, &out);
    if (different.ok()) remarks.Add(options.name, **trace);
    exit_code = out.Finish(different.ok() ? remarks.Check() : different.status());
  }
  if (exit_code == kExitOk) remarks.Tell(quiet);
  return exit_code == kExitOk && different.ok() && *different ? kExitDifferent : exit_code;
}

}  // namespace torchtrace
