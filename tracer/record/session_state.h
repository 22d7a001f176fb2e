// What hooks and threads read of the session before every call; only the Recorder changes it.

#ifndef TORCHTRACE_TRACER_RECORD_SESSION_STATE_H_
#define TORCHTRACE_TRACER_RECORD_SESSION_STATE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "tracer/record/control_page.h"
#include "tracer/record/export.h"

namespace torchtrace {

class TORCHTRACE_EXPORT SessionState {
 public:
  // Changes with all that threads have to catch up with: a session, a pause, tags. 0: nothing is recorded. No other
  // number is used twice.
  static uint64_t epoch() { return epoch_.load(std::memory_order_relaxed); }
  // The number of the active session; 0: none.
  static uint64_t session() { return session_.load(std::memory_order_relaxed); }
  // Whether the session records what calls return.
  static bool wants_results() { return wants_results_.load(std::memory_order_relaxed); }
  // What the user wants recorded, without a session that of none.
  static const ControlPage& control() { return control_page_.page; }

 private:
  friend class Recorder;
  static std::atomic<uint64_t> epoch_;
  static std::atomic<uint64_t> session_;
  static std::atomic<bool> wants_results_;

  // Maps the folder's lock over the static page, and zeros again. What fails leaves zeros: nobody can control
  // the process.
  static void MapControlPage(const std::string& log_folder);
  static void UnmapControlPage();
  // Adds to the page's log_bytes, and returns them; `own` if there is no page.
  static uint64_t AddLogBytes(const std::string& log_folder, uint64_t bytes, uint64_t own);
  // For the SIGBUS handler: if the address is in the page, whose file was cut, unmaps it and returns true.
  static bool RecoverControlPage(const void* address);

  // A page of its own, so that a file can be mapped over it: a call reads it with one load.
  struct alignas(kControlPageBytes) Page {
    char holder[kControlOffset];
    ControlPage page;
    char rest[kControlPageBytes - kControlOffset - sizeof(ControlPage)];
  };
  static Page control_page_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_SESSION_STATE_H_
