// JSON read as a stream, an element at a time.

#ifndef TORCHTRACE_SERIALIZE_IMPORT_JSON_STREAM_H_
#define TORCHTRACE_SERIALIZE_IMPORT_JSON_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "serialize/model/value.h"

namespace torchtrace {

// Reads JSON files whose bulk is one array of small elements (`nodes`,
// `traceEvents`): each element is given out as a document of its own and then
// forgotten, so that memory goes with the largest element and not with the
// file. Nothing here throws or recurses, whatever the bytes are.
//
//   {"schema": "1.1.1", "nodes": [{...}, {...}], "finish_ts": 3}

// Containers in one element, or in one member, nest no deeper; a file in which
// they do is refused.
inline constexpr int kMaxJsonDepth = 48;
// Nor does one take more, nor a text, or white space, between two.
inline constexpr uint64_t kMaxJsonBytes = uint64_t{64} << 20;

struct JsonFile {
  std::string name;  // as errors name it
  // Fewer bytes than asked for where the file ends.
  std::function<size_t(uint64_t offset, void* to, size_t bytes)> read;
  // Why it ended where it did; null: it always ends where its bytes do.
  std::function<absl::Status()> status = nullptr;
};

struct JsonStreamOptions {
  std::string array;                 // the top-level object's member whose elements are given out
  bool bare_array = false;           // the file may also be that array alone
  std::vector<std::string> members;  // other members of the object that are wanted; the rest is skipped
};

class JsonStreamVisitor {
 public:
  virtual ~JsonStreamVisitor() = default;
  // An error ends the reading and is returned. `offset` is where the element begins in the
  // file, or, of a number or a word, ends.
  virtual absl::Status Element(const nlohmann::json& element, uint64_t offset) = 0;
  virtual absl::Status Member(const std::string& key, const nlohmann::json& value) = 0;
};

struct JsonStreamEnd {
  bool cut = false;          // the file ends before its JSON does; whole elements were given out
  bool found_array = false;  // the array was there, or its beginning
  uint64_t elements = 0;
  uint64_t bytes = 0;  // read
};

// Errors name the file, the offset and what was expected there.
absl::StatusOr<JsonStreamEnd> ReadJsonStream(const JsonFile& file, const JsonStreamOptions& options,
                                             JsonStreamVisitor* visitor);

// Sizes and strides in the JSON of PyTorch's profilers.

// Appends to `out`. False for what is no list of integers.
inline bool ReadJsonDims(const nlohmann::json& list, std::vector<Dim>* out) {
  if (!list.is_array()) return false;
  out->reserve(list.size());
  for (const nlohmann::json& size : list) {
    if (!size.is_number_integer()) return false;
    out->emplace_back(size.get<int64_t>());
  }
  return true;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_JSON_STREAM_H_
