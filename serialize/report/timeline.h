// The timeline of a report page: threads, streams of devices, and steps.

#ifndef TORCHTRACE_SERIALIZE_REPORT_TIMELINE_H_
#define TORCHTRACE_SERIALIZE_REPORT_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialize/report/page/report_page.h"
#include "serialize/report/pyramid.h"
#include "serialize/reports/reports.h"

namespace torchtrace {

struct Timeline {
  double tick_ns = 1;
  uint32_t ticks = 0;  // 0: the traces have no times
  struct Track {
    std::string name;
    const char* kind = "";
    size_t trace = 0;
    std::vector<Pyramid::Level> levels;
  };
  std::vector<Track> tracks;
  std::vector<std::pair<std::string, int>> labels;  // of rows, with their levels
  uint64_t too_deep = 0;                            // calls that are in more calls than tracks show
  uint64_t untimed = 0;                             // calls
  size_t tracks_left_out = 0;
};

// Each trace begins at 0. Memory: about `most_rows` of rows, and the open calls.
absl::StatusOr<Timeline> ReadTimeline(const std::vector<StatsTrace>& traces, size_t most_rows);

// Sets head.timeline, if there are times. Returns how many bytes it takes.
size_t WriteTimeline(const Timeline& timeline, size_t traces, ReportPage* page);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_TIMELINE_H_
