// What a log lost or lacks, told exactly where it can be known.

#ifndef TORCHTRACE_SERIALIZE_TRACE_DAMAGE_H_
#define TORCHTRACE_SERIALIZE_TRACE_DAMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace torchtrace {

struct Damage {
  std::vector<std::string> sentences;  // one for each thing found, with its byte offset
  uint64_t lost_calls = 0;             // calls that were recorded and can't be read
  uint64_t lost_bytes = 0;
  bool lost_calls_exact = true;  // false: at least lost_calls
};

// "no calls", "1 call", "at least 3 calls", "an unknown number of calls".
std::string CountLostCalls(uint64_t lost_calls, bool exact);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_TRACE_DAMAGE_H_
