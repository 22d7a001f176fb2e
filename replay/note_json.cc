#include "replay/note_json.h"

#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"

namespace torchtrace {

nlohmann::ordered_json NotesToJson(const std::vector<TensorNote>& notes, std::vector<std::string_view>* pieces) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TensorNote& note : notes) {
    nlohmann::ordered_json& object = list.emplace_back(nlohmann::ordered_json{{"position", note.position}});
    if (note.identity) {
      object["storage"] = note.identity->storage;
      object["offset"] = note.identity->offset;
    }
    if (note.range) {
      object["min"] = note.range->least;
      object["max"] = note.range->most;
    }
    if (note.contents && pieces != nullptr) {
      pieces->push_back(*note.contents);
      object["contents"] = note.contents->size();
    } else if (note.contents) {
      object["contents"] = absl::Base64Escape(absl::string_view(note.contents->data(), note.contents->size()));
    }
  }
  return list;
}

}  // namespace torchtrace
