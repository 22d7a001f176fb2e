// The CPython in another process: its version, and where its functions are. Read from the process's memory: the files
// that it has mapped may be out of reach (a container), or replaced since (an update).

#ifndef TORCHTRACE_TRACER_ATTACH_REMOTE_PYTHON_H_
#define TORCHTRACE_TRACER_ATTACH_REMOTE_PYTHON_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace torchtrace {

// A function there.
struct RemoteFunction {
  uint64_t address = 0;  // 0: it wasn't found
  uint64_t bytes = 0;
};

// The C library; addresses are 0 if they weren't found.
struct RemoteLibc {
  RemoteFunction mmap, munmap, sigemptyset;
  uint64_t sigreturn = 0;  // its code that returns from a signal handler
};
RemoteLibc FindRemoteLibc(pid_t pid);

struct RemotePython {
  int minor = 0;
  std::string version;  // "3.11.7"; of 3.10 only "3.10"
  std::string program;  // the executable
  RemoteFunction add_pending_call, run_simple_string, destroy_table, acquire_lock;
  RemoteLibc libc;
  std::string image;  // changes when the process becomes another program
};

// See RemotePython::image.
std::string ImageOf(pid_t pid);

// NotFound: it has no CPython that torchtrace knows. PermissionDenied: its memory can't be read.
absl::StatusOr<RemotePython> FindRemotePython(pid_t pid);

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_ATTACH_REMOTE_PYTHON_H_
