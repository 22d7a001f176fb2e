// What calls do to the memory of their tensors, as names and arguments tell: a trace has no schemas.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_MEMORY_EFFECTS_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_MEMORY_EFFECTS_H_

#include "serialize/model/config.h"

namespace torchtrace {

struct MemoryEffects {
  bool allocates = false;     // it returns memory that it has not written
  bool changes_view = false;  // in place: of what a tensor shows, not of elements
  bool writes = false;        // elements of its arguments
  bool writes_later = false;  // what it writes or returns may arrive after its end: a collective, a receive
};

// Of an operator, or a function of level 0 or 1; none of other calls.
MemoryEffects MemoryEffectsOf(const Config& config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_MEMORY_EFFECTS_H_
