// What is known of a call's tensors beside their descriptions, as workers are told it.

#ifndef TORCHTRACE_REPLAY_NOTE_JSON_H_
#define TORCHTRACE_REPLAY_NOTE_JSON_H_

#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/model/tensor_notes.h"

namespace torchtrace {

// [{"position": 0, "storage": 2, "offset": 0, "min": 0, "max": 9, "contents": base 64}, ...], as far as known.
nlohmann::ordered_json NotesToJson(const std::vector<TensorNote>& notes);

}  // namespace torchtrace

#endif  // TORCHTRACE_REPLAY_NOTE_JSON_H_
