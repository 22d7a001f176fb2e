// What `torchtrace ctl` tells the processes of a run, and what they tell each other: a part of the folder's lock,
// log/.lock (serialize/base/files.h), which each of them maps. Only processes of the same user can write it (mode
// 0600).

#ifndef TORCHTRACE_TRACER_RECORD_CONTROL_PAGE_H_
#define TORCHTRACE_TRACER_RECORD_CONTROL_PAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace torchtrace {

inline constexpr size_t kControlPageBytes = 4096;
inline constexpr size_t kControlOffset = 2048;  // behind the holder's name

struct ControlPage {
  enum Order : uint32_t {
    kNone = 0,    // record as the run's options say
    kPause = 1,   // record nothing
    kWindow = 2,  // record until `until_ns`, and nothing later
    kStop = 3,    // record nothing; no other order follows
  };
  // First what outlives the processes that are there (FolderLock::kOrdersBytes).
  std::atomic<uint32_t> order;
  uint32_t unused;
  std::atomic<uint64_t> log_bytes;  // of all the run's logs, with `run --max-size`
  std::atomic<uint64_t> until_ns;   // CLOCK_MONOTONIC; written before the order
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_CONTROL_PAGE_H_
