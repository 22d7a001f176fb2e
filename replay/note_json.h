// What is known of a call's tensors beside their descriptions, as workers are told it.

#ifndef TORCHTRACE_REPLAY_NOTE_JSON_H_
#define TORCHTRACE_REPLAY_NOTE_JSON_H_

#include <string_view>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "serialize/model/tensor_notes.h"

namespace torchtrace {

// [{"position": 0, "storage": 2, "offset": 0, "min": 0, "max": 9, "contents": base 64}, ...], as far as known. With
// `pieces` contents are put there, and their number of bytes stands in their place.
nlohmann::ordered_json NotesToJson(const std::vector<TensorNote>& notes,
                                   std::vector<std::string_view>* pieces = nullptr);

}  // namespace torchtrace

#endif  // TORCHTRACE_REPLAY_NOTE_JSON_H_
