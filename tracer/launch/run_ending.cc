#include "tracer/launch/run_ending.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/log/log_trace.h"
#include "serialize/render/render.h"
#include "serialize/trace/statistics.h"
#include "serialize/trace/trace.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
namespace {

// Runs `step` and returns what it throws (out of memory, a full disk in a library) as a status.
template <typename Step>
absl::Status Guarded(Step step) {
  try {
    return step();
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

absl::Status RunEnding::TryRender(Trace* trace) {
  const absl::StatusOr<RenderFormats> formats = RenderFormats::Parse(options_.recording.formats);
  if (!formats.ok()) return formats.status();
  RenderOptions render;
  render.formats = *formats;
  render.render_limit = options_.recording.render_limit.value_or(kDefaultRenderLimit);
  render.merge_output = options_.recording.merge_output;
  render.folder = options_.folder;
  render.force = true;
  render.trace_path = options_.shown_name;
  render.mode = FileModeOf(*trace);
  absl::StatusOr<RenderReport> report = Render(trace, render);
  if (!report.ok()) return report.status();
  report_ = *std::move(report);
  return absl::OkStatus();
}

absl::Status RunEnding::TryRenderEarly() {
  absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(options_.folder);
  if (!trace.ok()) return trace.status();
  if (absl::Status status = TryRender(trace->get()); !status.ok()) return status;
  return WriteRunInfo(BuildRunInfo(**trace, report_->statistics, &*report_), options_.folder, FileModeOf(**trace));
}

absl::Status RunEnding::TryFinish() {
  absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(options_.folder);
  if (!trace.ok()) return trace.status();
  const bool early = report_.has_value();
  const absl::Status rendered = early ? absl::OkStatus() : TryRender(trace->get());
  Statistics statistics;
  if (report_.has_value() && !early) {
    statistics = report_->statistics;
  } else {
    // The trace was not read yet, or its rendering failed: print the numbers anyway.
    absl::StatusOr<Statistics> counted = CountCalls(trace->get());
    if (!counted.ok()) return counted.status();
    statistics = *std::move(counted);
  }
  const RenderReport* const report = report_.has_value() ? &*report_ : nullptr;
  const absl::Status written =
      WriteRunInfo(BuildRunInfo(**trace, statistics, report), options_.folder, FileModeOf(**trace));
  if (!options_.recording.quiet) {
    for (const std::string& line : SummaryLines(**trace, statistics, report, options_.shown_name))
      SayLines(PlainLine(line));
  }
  return rendered.ok() ? written : rendered;
}

void RunEnding::Report(const absl::Status& status) const {
  if (status.ok() || options_.recording.quiet) return;
  std::string text = PlainLine(std::string(status.message()));
  // The program, or another one, may have removed it.
  if (OpenLogs(options_.folder).ok()) {
    absl::StrAppend(&text, "\nthe log is kept; type: torchtrace render ", PlainLine(ShellQuote(options_.shown_name)));
  }
  SayLines(text);
}

void RunEnding::RenderEarly() {
  // An error occurs again at the end, and is printed then.
  Guarded([this] { return TryRenderEarly(); }).IgnoreError();
}

absl::Status RunEnding::Complete() {
  return Guarded([this] { return TryFinish(); });
}

void RunEnding::Finish() { Report(Complete()); }

}  // namespace torchtrace
