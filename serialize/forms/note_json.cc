#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"
#include "serialize/forms/forms.h"

namespace torchtrace {

using nlohmann::ordered_json;

void AddNote(const TensorNote& note, ordered_json* json, std::vector<std::string_view>* contents) {
  if (note.identity) {
    (*json)["tensor"] = note.identity->tensor;
    if (note.identity->storage != 0) {
      (*json)["storage"] = note.identity->storage;
      (*json)["offset"] = note.identity->offset;
    }
  }
  if (note.range) {
    (*json)["min"] = note.range->least;
    (*json)["max"] = note.range->most;
  }
  if (note.contents && contents != nullptr) {
    contents->push_back(*note.contents);
    (*json)["contents"] = note.contents->size();
  } else if (note.contents) {
    (*json)["contents"] = absl::Base64Escape(absl::string_view(note.contents->data(), note.contents->size()));
  }
}

ordered_json NotesToJson(const std::vector<TensorNote>& notes, std::vector<std::string_view>* contents) {
  ordered_json list = ordered_json::array();
  for (const TensorNote& note : notes) {
    AddNote(note, &list.emplace_back(ordered_json{{"position", note.position}}), contents);
  }
  return list;
}

}  // namespace torchtrace
