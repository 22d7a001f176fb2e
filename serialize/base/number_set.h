// A set of numbers as users write it, for --calls and --rank: `3`, `10-20`, `30-`,
// `-5`, several with commas, and `@FILE` for a file of the same. Immutable once
// parsed; may be asked from any thread.

#ifndef TORCHTRACE_SERIALIZE_BASE_NUMBER_SET_H_
#define TORCHTRACE_SERIALIZE_BASE_NUMBER_SET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

class NumberSet {
 public:
  // In a file, numbers and ranges are separated by commas or white space, and lines
  // that start with # are passed over. InvalidArgument says what was expected, and in
  // which line; NotFound names a file that can't be read.
  static absl::StatusOr<NumberSet> Parse(std::string_view text);

  bool Contains(uint64_t number) const;
  // The first number and the last, both included; nothing when it is empty.
  const std::vector<std::pair<uint64_t, uint64_t>>& ranges() const { return ranges_; }

 private:
  absl::Status Add(std::string_view item, const std::string& where);
  absl::Status AddFile(const std::string& path);
  void Arrange();

  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // sorted, none touches another
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_NUMBER_SET_H_
