// Reads JSON as a stream, an element at a time.

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

// Limits of an element or member: a file that exceeds one is an error.
inline constexpr int kMaxJsonDepth = 48;  // nested containers
// Also limits a text, and white space between elements.
inline constexpr uint64_t kMaxJsonBytes = uint64_t{64} << 20;

struct JsonFile {
  std::string name;  // for errors
  // Returns fewer bytes where the file ends.
  std::function<size_t(uint64_t offset, void* to, size_t bytes)> read;
  // Why reading ended early, OK if it didn't; null: it never does.
  std::function<absl::Status()> status = nullptr;
};

struct JsonStreamOptions {
  std::string array;                 // the top-level object's member whose elements are visited
  bool bare_array = false;           // the file may also be just that array
  std::vector<std::string> members;  // other members of the object to visit; the rest is skipped
};

class JsonStreamVisitor {
 public:
  virtual ~JsonStreamVisitor() = default;
  // An error ends the reading and is returned. `offset` is the file position of the element's
  // beginning; for a number or a word, of its end.
  virtual absl::Status Element(const nlohmann::json& element, uint64_t offset) = 0;
  virtual absl::Status Member(const std::string& key, const nlohmann::json& value) = 0;
};

struct JsonStreamEnd {
  bool cut = false;          // the file ends before its JSON does; whole elements were visited
  bool found_array = false;  // the array, or at least its beginning, is in the file
  uint64_t elements = 0;
  uint64_t bytes = 0;  // read
};

// Reads JSON files whose bulk is one array of small elements (`nodes`,
// `traceEvents`): each element is parsed and visited by itself, so memory
// grows with the largest element and not with the file. Nothing here throws or
// recurses, whatever the bytes are.
//
//   {"schema": "1.1.1", "nodes": [{...}, {...}], "finish_ts": 3}
//
// Errors name the file, the offset and what was expected there.
absl::StatusOr<JsonStreamEnd> ReadJsonStream(const JsonFile& file, const JsonStreamOptions& options,
                                             JsonStreamVisitor* visitor);

// Reads sizes or strides of PyTorch's profilers. Appends to `out`; false: not a list of integers.
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
