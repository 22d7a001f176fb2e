// The torchtrace that has attached to this program, as seen from the program.

#ifndef TORCHTRACE_PYTHON_ATTACHER_H_
#define TORCHTRACE_PYTHON_ATTACHER_H_

#include <cstdint>
#include <functional>
#include <string>

namespace torchtrace {

struct Attacher {
  std::string task;         // a file that it keeps, and holds the lock of, for as long as calls are to be recorded
  bool locks = true;        // false: the file system has no locks
  int64_t deadline_ns = 0;  // of CLOCK_MONOTONIC: nothing is recorded after it; 0: none
};

// False once it has ended, was killed, or its time is over.
bool Waits(const Attacher& attacher);

// For RecorderOptions::goes_on: whether the attacher waits. If it doesn't, the program's main thread closes the
// trace at its next safe point.
std::function<bool()> WatchAttacher(Attacher attacher);

}  // namespace torchtrace

#endif  // TORCHTRACE_PYTHON_ATTACHER_H_
