// What one call has beside its configuration, and what it returned.

#ifndef TORCHTRACE_SERIALIZE_MODEL_CALL_EXTRAS_H_
#define TORCHTRACE_SERIALIZE_MODEL_CALL_EXTRAS_H_

#include <cstddef>
#include <string_view>

#include "serialize/model/record_facts.h"

namespace torchtrace {

// Notes that are taken of a configuration's first calls alone.
class FirstNotes {
 public:
  // All notes on the call's tensors, in the place of its others.
  virtual std::string_view Take() = 0;

 protected:
  ~FirstNotes() = default;
};

struct CallExtras {
  const RecordFacts* facts = nullptr;  // of a call of level 4
  std::string_view notes = {};         // on its tensors (tensor_notes.h); empty: none
  FirstNotes* first_notes = nullptr;   // null: there are no others
};

struct CallResult {
  std::string_view values = {};  // varint n, value * n (value.h); empty: it isn't known
  std::string_view notes = {};   // on the tensors in them

  bool known() const { return !values.empty(); }
  size_t bytes() const { return values.size() + notes.size(); }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_CALL_EXTRAS_H_
