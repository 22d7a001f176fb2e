// What the processes of a run do while they write their trace, as `torchtrace top` shows it. LiveLogs (live_logs.h)
// reads it from their logs.

#ifndef TORCHTRACE_SERIALIZE_TRACE_LIVE_H_
#define TORCHTRACE_SERIALIZE_TRACE_LIVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serialize/trace/running.h"
#include "serialize/trace/trace.h"

namespace torchtrace {

inline constexpr uint32_t kNoName = UINT32_MAX;

// What the calls of a config count for. Whoever wants to know numbers the names, from 0 without gaps; APIs and modules
// separately.
struct CallName {
  uint32_t api = kNoName;
  uint32_t module = kNoName;  // of a module's call
};
using CallNaming = std::function<CallName(std::string_view identity)>;

// What the calls of one name did between two readings.
struct Activity {
  uint32_t name = kNoName;
  uint64_t calls = 0;    // entered
  uint64_t self_ns = 0;  // for which a thread's innermost call, or innermost module, had the name
};

struct LiveThread {
  uint64_t number = 0;
  std::string name;
  uint64_t open_calls = 0;  // never 0
  // The innermost one.
  std::string identity = {};  // empty: it was entered before the part of the log that was read
  int64_t entered_ns = 0;     // by its process's clock, as until_ns
};

struct LiveProcess {
  ProcessInfo info;  // of its numbers only `calls` and `file_bytes`
  Running running = Running::kUnknown;
  uint64_t threads = 0;            // that have called something
  uint64_t calls = 0;              // entered since the reading before
  int64_t until_ns = 0;            // now, if it runs, else when it surely did; 0: it has no calls
  std::vector<LiveThread> inside;  // threads in an open call, by number
  std::vector<Activity> apis;
  std::vector<Activity> modules;
};

// A reading of all processes.
struct LiveReading {
  int64_t elapsed_ns = 0;  // since the one before; 0: it is the first, and counts nothing
  std::vector<LiveProcess> processes;
  std::vector<std::string> unreadable;  // logs, a sentence each
  std::string order;                    // what `torchtrace ctl` says to record; empty: everything
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_LIVE_H_
