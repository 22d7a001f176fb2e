// What PyTorch's RecordFunction says of one call of level 4, beside its name and arguments: it changes from call to
// call, so it is no part of a configuration.

#ifndef TORCHTRACE_SERIALIZE_MODEL_RECORD_FACTS_H_
#define TORCHTRACE_SERIALIZE_MODEL_RECORD_FACTS_H_

#include <cstdint>
#include <string>

namespace torchtrace {

struct RecordFacts {
  uint64_t scope = 0;           // at::RecordScope
  uint64_t thread = 0;          // as RecordFunction numbers threads, from 1; 0: not known
  int64_t sequence = -1;        // of the autograd node that this call makes or is; -1: none
  uint64_t forward_thread = 0;  // backward nodes: the thread on which the node was made; 0: none
  uint64_t id = 0;              // RecordFunction's, where someone asked for ids: Kineto's "Record function id"; 0: none

  // Nothing that a reader doesn't take for granted.
  bool plain() const { return scope == 0 && sequence < 0 && forward_thread == 0 && id == 0; }
  friend bool operator==(const RecordFacts&, const RecordFacts&) = default;
};

inline constexpr uint64_t kFunctionScope = 0;
inline constexpr uint64_t kBackwardScope = 1;
inline constexpr uint64_t kUserScope = 7;

// "function", "backward", ...; "scope 12" where it isn't known.
std::string RecordScopeName(uint64_t scope);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_RECORD_FACTS_H_
