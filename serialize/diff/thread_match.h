// Which thread of one run is which of another. Processes belong together by
// rank and role, threads by name and number, each in order where several are alike.

#ifndef TORCHTRACE_SERIALIZE_DIFF_THREAD_MATCH_H_
#define TORCHTRACE_SERIALIZE_DIFF_THREAD_MATCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "serialize/trace/trace.h"

namespace torchtrace {

struct ThreadId {
  uint32_t process = 0;  // index into trace.processes()
  uint32_t thread = 0;   // its number
  friend auto operator<=>(const ThreadId&, const ThreadId&) = default;
};

// Of the threads given, sorted, those that belong together.
std::vector<std::pair<ThreadId, ThreadId>> MatchThreads(const Trace& a, const std::vector<ThreadId>& a_threads,
                                                        const Trace& b, const std::vector<ThreadId>& b_threads);

// `rank 0, main-1234, thread 1 (worker)`
std::string DescribeThread(const Trace& trace, ThreadId thread);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_THREAD_MATCH_H_
