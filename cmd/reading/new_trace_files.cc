#include "cmd/reading/new_trace_files.h"

#include <memory>

#include "cmd/reading/reading_progress.h"
#include "nlohmann/json.hpp"
#include "serialize/log/log_trace.h"
#include "serialize/render/render.h"
#include "serialize/render/run_info.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

absl::StatusOr<std::vector<std::string>> WriteNewTraceFiles(const NewTraceFolder& folder, const std::string& name,
                                                            const RenderingOptions& options) {
  ReadingProgress progress(options.quiet, 1, "rendering");
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(folder.path(), progress.NextObserver());
  if (!trace.ok()) return folder.Shown(trace.status());
  RenderOptions render;
  options.Apply(&render);
  render.folder = folder.path();
  render.trace_path = name;
  const absl::StatusOr<RenderReport> report = Render(trace->get(), render);
  if (!report.ok()) return folder.Shown(report.status());
  const absl::Status written = WriteRunInfo(BuildRunInfo(**trace, report->statistics, &*report), folder.path());
  if (!written.ok()) return folder.Shown(written);
  if (options.quiet) return std::vector<std::string>();
  return SummaryLines(**trace, report->statistics, &*report, name);
}

}  // namespace torchtrace
