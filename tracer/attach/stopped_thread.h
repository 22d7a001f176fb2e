// The main thread of another process, stopped, in which functions of that process can be called. x86-64.
//
// No code is written, and nothing is left behind. The function's frame lies on the thread's own stack, below all that
// it uses, as that of a signal handler would: the function returns into the C library's code that ends a handler, with
// everything that the thread had (registers, vectors, blocked signals) in a frame of the kernel's form. So the thread
// is safe at every moment: it goes on as after a signal handler if torchtrace is killed. The only difference is that
// otherwise a system call in which it was stopped is restarted. Signals that come meanwhile wait until then.

#ifndef TORCHTRACE_TRACER_ATTACH_STOPPED_THREAD_H_
#define TORCHTRACE_TRACER_ATTACH_STOPPED_THREAD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracer/attach/remote_python.h"

namespace torchtrace {

class StoppedThread {
 public:
  // Stops it. Errors say what to do; Unavailable: it is a bad moment, another will be good. `wait`: a
  // function that copes with interrupted waits; if the thread waits in it, the wait is interrupted. After an error the
  // thread may still be about to stop: the kernel lets it go when the calling thread ends.
  static absl::StatusOr<std::unique_ptr<StoppedThread>> Stop(pid_t pid, const RemoteLibc& libc,
                                                             const RemoteFunction& wait = {});
  // Lets it go on as it was.
  ~StoppedThread();
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;

  // Calls it. Returns what the last system call in it returned, 0 without one: the function's own result is lost.
  absl::StatusOr<int64_t> Call(const RemoteFunction& function, const std::vector<uint64_t>& arguments);

 private:
  struct Registers;

  StoppedThread(pid_t pid, const RemoteLibc& libc);
  absl::Status Seize();
  absl::Status Save();
  absl::Status CheckMoment() const;
  bool IsInCriticalSection() const;
  void InterruptWait(const RemoteFunction& wait);
  absl::Status WriteFrame();
  void GoOn();

  const pid_t pid_;
  const RemoteLibc libc_;
  std::unique_ptr<Registers> saved_;
  uint64_t entry_sp_ = 0;  // the stack pointer of called functions
  bool stopped_ = false;   // by us, and it still exists
  bool called_ = false;
  bool returning_ = false;  // about to make the system call that ends a signal handler
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_STOPPED_THREAD_H_
