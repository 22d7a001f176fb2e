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

void ReadTensorNotes(std::string_view bytes, std::vector<TensorNote>* notes) {
  notes->clear();
  ByteReader reader(bytes);
  for (TensorNote note; ReadNote(&reader, &note); note = TensorNote()) notes->push_back(note);
  const auto earlier = [](const TensorNote& a, const TensorNote& b) { return a.position < b.position; };
  // As they are written, which a log of anyone's need not be.
  if (std::is_sorted(notes->begin(), notes->end(), earlier)) return;
  std::stable_sort(notes->begin(), notes->end(), earlier);
}

std::vector<TensorNote> ReadTensorNotes(std::string_view bytes) {
  std::vector<TensorNote> notes;
  ReadTensorNotes(bytes, &notes);
  return notes;
}

}  // namespace torchtrace
