#include "serialize/model/tensor_notes.h"

#include <algorithm>

namespace torchtrace {
namespace {

bool ReadNumbers(ByteReader* reader, TensorNote::Numbers* numbers) {
  for (uint64_t* const count : {&numbers->nans, &numbers->positive_infinities, &numbers->negative_infinities,
                                &numbers->zeros, &numbers->finite}) {
    if (!reader->Varint(count)) return false;
  }
  if (numbers->finite != 0) {
    for (double* const number : {&numbers->least, &numbers->most, &numbers->mean, &numbers->norm}) {
      if (!reader->Double(number)) return false;
    }
  }
  return reader->Fixed64(&numbers->fingerprint);
}

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
  if (bits & kNoteNumbers) {
    if (!ReadNumbers(reader, &note->numbers.emplace())) return false;
  }
  // Unknown fields of a later version can't be skipped.
  return bits <= (kNoteIdentity | kNoteRange | kNoteContents | kNoteNumbers);
}

}  // namespace

void ReadTensorNotes(std::string_view bytes, std::vector<TensorNote>* notes) {
  notes->clear();
  ByteReader reader(bytes);
  for (TensorNote note; ReadNote(&reader, &note); note = TensorNote()) {
    if (!note.identity || note.identity->offset <= INT64_MAX) notes->push_back(note);
  }
  const auto earlier = [](const TensorNote& a, const TensorNote& b) { return a.position < b.position; };
  // Our writers sort them, others may not.
  if (std::is_sorted(notes->begin(), notes->end(), earlier)) return;
  std::stable_sort(notes->begin(), notes->end(), earlier);
}

std::vector<TensorNote> ReadTensorNotes(std::string_view bytes) {
  std::vector<TensorNote> notes;
  ReadTensorNotes(bytes, &notes);
  return notes;
}

const TensorNote* FindNote(const std::vector<TensorNote>& notes, uint64_t position) {
  const auto at = std::lower_bound(notes.begin(), notes.end(), position,
                                   [](const TensorNote& note, uint64_t wanted) { return note.position < wanted; });
  return at != notes.end() && at->position == position ? &*at : nullptr;
}

}  // namespace torchtrace
