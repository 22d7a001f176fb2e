// What PyTorch's RecordFunction reports for a call of level 4, as well as its name and arguments. It changes from call
// to call, so it is not part of the configuration.

#ifndef TORCHTRACE_SERIALIZE_MODEL_RECORD_FACTS_H_
#define TORCHTRACE_SERIALIZE_MODEL_RECORD_FACTS_H_

#include <cstdint>
#include <string>

namespace torchtrace {

struct RecordFacts {
  uint64_t scope = 0;           // at::RecordScope
  uint64_t thread = 0;          // RecordFunction's number of the thread, from 1; 0: unknown
  int64_t sequence = -1;        // of the autograd node that this call creates or runs; -1: none
  uint64_t forward_thread = 0;  // backward nodes: the thread that created the node; 0: none
  uint64_t id = 0;              // RecordFunction's, if ids are on: Kineto's "Record function id"; 0: none

  // Everything but the thread has its default value.
  bool plain() const { return scope == 0 && sequence < 0 && forward_thread == 0 && id == 0; }
  friend bool operator==(const RecordFacts&, const RecordFacts&) = default;
};

inline constexpr uint64_t kFunctionScope = 0;
inline constexpr uint64_t kBackwardScope = 1;
inline constexpr uint64_t kUserScope = 7;

// "function", "backward", ...; "scope 12" for an unknown one.
std::string RecordScopeName(uint64_t scope);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_RECORD_FACTS_H_
