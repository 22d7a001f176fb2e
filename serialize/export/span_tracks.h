// What timelines show beside the calls: the program's steps, and the tags of each thread's calls.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_SPAN_TRACKS_H_
#define TORCHTRACE_SERIALIZE_EXPORT_SPAN_TRACKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serialize/export/tag_texts.h"
#include "serialize/trace/step_times.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

struct TimelineSpan {
  uint32_t process = 0;
  uint32_t thread = kNoThread;  // kNoThread: of the process
  std::string name;             // `ProfilerStep#3`, as PyTorch's profiler calls steps; `phase=eval, step=3`
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Spans of a track follow each other without overlapping. Memory grows with them.
class SpanTracks {
 public:
  // The trace must outlive it.
  explicit SpanTracks(const Trace* trace) : steps_(trace), texts_(trace) {}

  // Call it for every entry and end, in order. `shown`: only spans with such calls are kept.
  void Add(const CallRecord& record, bool shown);
  // JSON; valid as long as this. Empty: none.
  std::string_view TagsOf(uint32_t tags) { return texts_.Of(tags); }

  // After the last one.
  std::vector<TimelineSpan> Finish();

 private:
  struct Open {
    const char* tags = nullptr;  // place of the text; null: none
    std::string_view text;
    int64_t start_ns = 0;
    int64_t last_ns = 0;
  };

  void Close(const std::pair<uint32_t, uint32_t>& thread, const Open& open);

  StepTimes steps_;
  std::set<std::pair<uint32_t, uint64_t>> shown_steps_;  // by process and number
  TagTexts texts_;
  std::map<std::pair<uint32_t, uint32_t>, Open> open_;
  std::vector<TimelineSpan> spans_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_SPAN_TRACKS_H_
