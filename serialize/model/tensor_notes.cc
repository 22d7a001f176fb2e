#include "serialize/model/tensor_notes.h"

#include <algorithm>

namespace torchtrace {
namespace {

bool ReadNote(ByteReader* reader, TensorNote* note) {
  uint64_t bits;
  if (!reader->Varint(&note->position) || !reader->Varint(&bits)) return false;
  if (bits & kNoteIdentity) {
    TensorNote::Identity identity;
    if (!reader->Varint(&identity.tensor) || !reader->Varint(&identity.storage) || !reader->Varint(&identity.offset)) {
      return false;
    }
    note->identity = identity;
  }
  if (bits & kNoteRange) {
    uint64_t least, most;
    if (!reader->Varint(&least) || !reader->Varint(&most)) return false;
    note->range = {UnZigZag(least), UnZigZag(most)};
  }
  if (bits & kNoteContents) {
    if (!reader->String(&note->contents.emplace())) return false;
  }
  // A later version's fields could not be passed over.
  return bits <= (kNoteIdentity | kNoteRange | kNoteContents);
}

}  // namespace

std::vector<TensorNote> ReadTensorNotes(std::string_view bytes) {
  std::vector<TensorNote> notes;
  ByteReader reader(bytes);
  for (TensorNote note; ReadNote(&reader, &note); note = TensorNote()) notes.push_back(note);
  std::stable_sort(notes.begin(), notes.end(),
                   [](const TensorNote& a, const TensorNote& b) { return a.position < b.position; });
  return notes;
}

}  // namespace torchtrace
