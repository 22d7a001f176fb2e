// `torchtrace ctl`.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "cmd/reading/running_trace.h"
#include "serialize/base/text.h"
#include "serialize/log/log_trace.h"
#include "serialize/trace/run_facts.h"
#include "serialize/trace/running.h"
#include "serialize/trace/trace.h"
#include "tracer/launch/run_control.h"

namespace torchtrace {
namespace {

constexpr char kCtlFooter[] =
    "ORDER:\n"
    "  pause         record nothing, from each process's next call on\n"
    "  resume        record again, as the run's options say\n"
    "  window TIME   record for TIME (10s, 500ms), then pause\n"
    "  stop          record nothing any more; no other order follows\n"
    "  status        show the last order, and each process's calls so far\n"
    "\n"
    "Examples:\n"
    "  torchtrace ctl out pause\n"
    "  torchtrace ctl \"$(pgrep -of torchrun)\" window 10s";

// Null: the status.
const Choices<std::optional<ControlPage::Order>>& Orders() {
  static const Choices<std::optional<ControlPage::Order>> orders("unknown order", {{"pause", ControlPage::kPause},
                                                                                   {"resume", ControlPage::kNone},
                                                                                   {"window", ControlPage::kWindow},
                                                                                   {"stop", ControlPage::kStop},
                                                                                   {"status", std::nullopt}});
  return orders;
}

absl::Status PrintStatus(const std::string& folder, const RunControl& control, StandardOutput* out) {
  absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(folder);
  if (!trace.ok()) return trace.status();
  if (const absl::StatusOr<std::vector<uint64_t>> counted = (*trace)->Count(); !counted.ok()) return counted.status();
  *out << control.Describe() << "\n";
  ProcessTable table;
  for (const ProcessInfo& process : (*trace)->processes()) {
    const bool runs = !process.closed && IsRunning(process, &table) != Running::kNo;
    *out << PlainLine(ProcessName(process)) << ": " << Counted(process.calls, "call", "calls")
         << (runs ? "" : absl::StrCat(", ", process.closed ? DescribeEnd(process) : "killed")) << "\n";
  }
  return absl::OkStatus();
}

int RunCtl(const std::vector<std::string>& args) {
  std::string what, word, time;
  const auto app = MakeApp(kCtlCommand, "[OPTIONS] PID|DIR ORDER [TIME]", kCtlFooter);
  app->add_option("PID|DIR", what, kRunningTraceText)->required();
  app->add_option("ORDER", word, "pause, resume, window, stop or status")->required()->check(OneOf(Orders()));
  app->add_option("TIME", time, "How long a window lasts")->check(Checked([](const std::string& text) {
    return ParseNanoseconds(text, 1);
  }));
  app->set_last_check([&] {
    if ((*Orders().Parse(word) == ControlPage::kWindow) == !time.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(time.empty() ? "window needs a time, as `window 10s`"
                                                   : absl::StrCat("only window takes a time, not ", word));
  });
  if (std::optional<int> done = ParseOptions(app.get(), args, kExitTrouble)) return *done;

  const absl::StatusOr<std::string> folder = FindRunningTrace(what);
  if (!folder.ok()) return Fail(kExitTrouble, folder.status());
  absl::StatusOr<RunControl> control = RunControl::Open(*folder);
  if (!control.ok()) return Fail(kExitTrouble, control.status());
  StandardOutput out;
  const std::optional<ControlPage::Order> order = *Orders().Parse(word);
  if (!order.has_value()) return out.Finish(PrintStatus(*folder, *control, &out));
  const absl::Status given = control->Give(*order, time.empty() ? 0 : *ParseNanoseconds(time));
  if (!given.ok()) return Fail(kExitTrouble, given);
  out << control->Describe() << "\n";
  return out.Finish(absl::OkStatus());
}

}  // namespace

const Command kCtlCommand = {"ctl", "Pause a running trace, record a window of it, or stop it", "Record", RunCtl};

}  // namespace torchtrace
