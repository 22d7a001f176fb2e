// What a run was and how it went, drawn from the metadata of its logs and from
// counting them: run.json, and the sentences that end a run. The numbers are
// those of the logs as they are, so that both can be made again after a
// kill -9, from whatever the killed process left.

#ifndef TORCHTRACE_SERIALIZE_RENDER_RUN_INFO_H_
#define TORCHTRACE_SERIALIZE_RENDER_RUN_INFO_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json_fwd.hpp"
#include "serialize/render/render.h"
#include "serialize/trace/statistics.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// The content of run.json. `trace` was read or counted before, for
// `statistics`; `report` tells what was not rendered, and may be null.
nlohmann::ordered_json BuildRunInfo(const Trace& trace, const Statistics& statistics, const RenderReport* report);

// Writes run.json into `folder`, whole or not at all, over an older one. The umask applies to `mode`.
absl::Status WriteRunInfo(const nlohmann::ordered_json& info, const std::string& folder, mode_t mode = 0666);

// What the end of a run says, without a prefix: where the trace is, how many
// calls, APIs and configs, what was dropped, capped, damaged or not seen, and
// the next command to type. `folder` as the user would type it; `report` may be null.
std::vector<std::string> SummaryLines(const Trace& trace, const Statistics& statistics, const RenderReport* report,
                                      const std::string& folder);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_RENDER_RUN_INFO_H_
