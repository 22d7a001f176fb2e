// Optional notes on the tensors of one call: identities, ranges of integers, contents, numbers. They change from call
// to call, so they are not part of the configuration. docs/FORMAT.md "Notes".

#ifndef TORCHTRACE_SERIALIZE_MODEL_TENSOR_NOTES_H_
#define TORCHTRACE_SERIALIZE_MODEL_TENSOR_NOTES_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "serialize/base/bytes.h"

namespace torchtrace {

struct TensorNote {
  struct Identity {
    uint64_t tensor = 0;   // unique in the process's log, from 1
    uint64_t storage = 0;  // numbered separately, the same way; views have their base's. 0: none
    uint64_t offset = 0;   // of its first element in the storage, in elements; at most INT64_MAX
    friend bool operator==(const Identity&, const Identity&) = default;
  };
  struct Range {
    int64_t least = 0;
    int64_t most = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  // What dialects/torch/numbers computes of all elements.
  struct Numbers {
    uint64_t nans = 0;
    uint64_t positive_infinities = 0;
    uint64_t negative_infinities = 0;
    uint64_t zeros = 0;
    uint64_t finite = 0;  // zeros too
    // Of the finite elements; 0 if there are none. Mean and norm may be infinite, the mean NaN.
    double least = 0;
    double most = 0;
    double mean = 0;
    double norm = 0;  // L2
    uint64_t fingerprint = 0;
    friend bool operator==(const Numbers&, const Numbers&) = default;
  };

  uint64_t position = 0;  // among the call's tensors, or the result's, as facets count them (config.h)
  std::optional<Identity> identity = {};
  std::optional<Range> range = {};                // of a non-empty tensor of integers or bools
  std::optional<std::string_view> contents = {};  // its elements in row-major order, as raw bytes
  std::optional<Numbers> numbers = {};
};

// Bits of a note in the log.
inline constexpr uint64_t kNoteIdentity = 1;
inline constexpr uint64_t kNoteRange = 2;
inline constexpr uint64_t kNoteContents = 4;
inline constexpr uint64_t kNoteNumbers = 8;

template <typename Out>
void AppendTensorNote(const TensorNote& note, Out* out) {
  AppendVarint(note.position, out);
  AppendVarint((note.identity ? kNoteIdentity : 0) | (note.range ? kNoteRange : 0) |
                   (note.contents ? kNoteContents : 0) | (note.numbers ? kNoteNumbers : 0),
               out);
  if (note.identity) {
    AppendVarint(note.identity->tensor, out);
    AppendVarint(note.identity->storage, out);
    AppendVarint(note.identity->offset, out);
  }
  if (note.range) {
    AppendVarint(ZigZag(note.range->least), out);
    AppendVarint(ZigZag(note.range->most), out);
  }
  if (note.contents) AppendString(*note.contents, out);
  if (note.numbers) {
    const TensorNote::Numbers& numbers = *note.numbers;
    for (const uint64_t count :
         {numbers.nans, numbers.positive_infinities, numbers.negative_infinities, numbers.zeros, numbers.finite}) {
      AppendVarint(count, out);
    }
    if (numbers.finite != 0) {
      for (const double number : {numbers.least, numbers.most, numbers.mean, numbers.norm}) AppendDouble(number, out);
    }
    AppendFixed64(numbers.fingerprint, out);
  }
}

// The notes of a call, or of a result, sorted by position. Contents are views into `bytes`. Stops at malformed bytes;
// skips a note with an impossible offset.
void ReadTensorNotes(std::string_view bytes, std::vector<TensorNote>* notes);
std::vector<TensorNote> ReadTensorNotes(std::string_view bytes);

// The note on the tensor at that position, or nullptr.
const TensorNote* FindNote(const std::vector<TensorNote>& notes, uint64_t position);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_MODEL_TENSOR_NOTES_H_
