// Where a thread's program stands when it enters a call: what the recorder asks for, and
// writes into the log (docs/STACKS.md). Knows no Python; python_stack.h does.

#ifndef TORCHTRACE_TRACER_RECORD_THREAD_STACK_H_
#define TORCHTRACE_TRACER_RECORD_THREAD_STACK_H_

#include <cstdint>
#include <string>

namespace torchtrace {

// Of each thread and configuration, so many calls are recorded with their stacks.
inline constexpr uint32_t kFirstStacks = 3;
inline constexpr uint32_t kAllStacks = UINT32_MAX;

// A number that the log's frame knows something by.
struct InFrame {
  uint32_t frame = 0;  // as ThreadRecorder numbers them; 0: none yet
  uint64_t number = 0;
};

struct RecordedCode {
  std::string file;
  std::string function;  // qualified
  std::string module;
  bool library = false;  // of the traced library or Python's own: no calling line is in it
  InFrame written;
};

struct RecordedPlace {
  RecordedPlace* caller = nullptr;
  RecordedCode* code = nullptr;
  uint32_t line = 0;  // 0: not known
  InFrame written;
};

// One for each thread that records, and used by that thread alone.
class ThreadStack {
 public:
  virtual ~ThreadStack() = default;
  // The calling thread's innermost place, with those that called it behind it; null when
  // it runs no Python code. Valid until the next Take. Places that are equal are mostly
  // one object. Keeps a Python error that is set.
  virtual RecordedPlace* Take() = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_RECORD_THREAD_STACK_H_
