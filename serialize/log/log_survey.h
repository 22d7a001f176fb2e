// LogSurvey is one pass over the calls of one process of a log in file order: the counts,
// where each thread's records are, and what was lost. Reading in time order builds
// on it; reading without an order between threads is done on the way. Memory grows with
// the frames and threads, not with the calls.

#ifndef TORCHTRACE_SERIALIZE_LOG_LOG_SURVEY_H_
#define TORCHTRACE_SERIALIZE_LOG_LOG_SURVEY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serialize/base/ahead.h"
#include "serialize/log/log_metadata.h"
#include "serialize/log/log_reader.h"
#include "serialize/trace/tables.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

// Consecutive records of one thread in one frame.
struct LogSegment {
  uint32_t frame = 0;  // index into LogReader::frames()
  uint32_t begin = 0;  // payload offsets; a thread record is at `begin`
  uint32_t end = 0;
  uint32_t calls = 0;            // entered in it
  uint32_t ends_of_earlier = 0;  // leaves of calls that were open when it began
  uint32_t left_open = 0;        // those of `calls` that don't leave in it
  uint64_t time = 0;             // in clock units; nothing in it is earlier
  uint64_t calls_before = 0;     // by the thread record
  uint64_t open_calls = 0;
};

struct LogThread {
  uint64_t number = 0;
  uint64_t os_id = 0;
  std::string name;
  uint64_t calls = 0;
  std::vector<LogSegment> segments;  // in program order
};

// Program order of two segments of one thread. It differs from the file's when a thread continued in a frame that
// another left half full.
bool IsBefore(const LogSegment& a, const LogSegment& b);

// How many of the `open` calls at the end of a segment are certainly still open
// when the thread's next segment begins, outermost first; `lost` calls were
// entered in between.
uint64_t SurvivingCalls(uint64_t open, uint64_t lost, const LogSegment& next);
// Lost calls that the thread entered after `before` (null: since it began) and
// before `next`.
uint64_t CallsBetween(const LogSegment* before, const LogSegment& next);

struct LogSurvey {
  std::vector<LogThread> threads;  // by number
  uint64_t calls = 0;              // with those of `counted`
  std::vector<std::pair<VariantId, uint64_t>> counted;
  uint64_t open_calls = 0;  // without a leave
  uint64_t event_bytes = 0;
  uint64_t definition_bytes = 0;
  std::map<std::string, uint64_t> dropped;     // by reason
  std::map<std::string, std::string> schemas;  // by operator
  Damage damage;                               // of call frames
};

// Visits the calls of a survey's process: those of one thread in program order.
struct SurveyVisit {
  uint32_t process = 0;  // index into Trace::processes()
  const LogClock* clock = nullptr;
  TagTable* tags = nullptr;
  StackTable* stacks = nullptr;
  uint64_t* calls = nullptr;  // the number of the next call
  const std::function<void(const CallRecord&)>* visitor = nullptr;
  bool helped = false;  // another thread may decode the records
  RecordsShown shown = {};
};

// What one frame says.
struct FrameSurvey;

// Surveys the frames of some processes of a log, one process after the other, on up to `threads` other threads: while
// one process is surveyed, those of the next one are read. The log must outlive it.
class FramesAhead {
 public:
  // The processes are indices into log.processes().
  FramesAhead(const LogReader& log, const std::vector<size_t>& processes, size_t threads);
  ~FramesAhead();
  FramesAhead(const FramesAhead&) = delete;
  FramesAhead& operator=(const FramesAhead&) = delete;

  // The next frame of calls.
  FrameSurvey Next();

 private:
  std::vector<uint32_t> frames_;
  std::unique_ptr<Ahead<FrameSurvey>> surveys_;
};

// `process` is an index into log.processes(). Adds definitions to `configs`, and calls to `counts` by VariantId.
// Calls `progress`, unless null, with the bytes of each frame after reading it. `frames`, unless null: has this process
// next. `visit`, instead of it: what it points to must outlive the survey; the calling thread calls its visitor.
LogSurvey SurveyLog(const LogReader& log, size_t process, const LogEnd& end, ConfigTable* configs,
                    std::vector<uint64_t>* counts, const std::function<void(uint64_t bytes)>& progress = nullptr,
                    FramesAhead* frames = nullptr, const SurveyVisit* visit = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_LOG_LOG_SURVEY_H_
