// What users ask for by pattern: names by globs, numbers by ranges; and the name that they may have meant.

#ifndef TORCHTRACE_SERIALIZE_BASE_MATCHING_H_
#define TORCHTRACE_SERIALIZE_BASE_MATCHING_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace torchtrace {

// Glob patterns over API names: the one meaning of --include and --exclude,
// for the recorder and for every verb. `*` is any run of characters, dots and
// colons included, `?` any one byte, `[ab-d]` one byte of those and `[!ab-d]` one
// other byte; everything else is itself, and the whole text must match. No
// function allocates, and all may be called from any thread, but for GlobMemo's.

bool GlobMatch(std::string_view pattern, std::string_view text);

// Accepts what matches one of `include` (everything, when there are none) and
// none of `exclude`.
struct GlobFilter {
  std::vector<std::string> include;
  std::vector<std::string> exclude;

  bool Accepts(std::string_view text) const;
  bool AcceptsAll() const { return include.empty() && exclude.empty(); }
};

// The same filter for texts that come again and again: groups of APIs are thousands
// of globs. Remembers each text that it was asked for.
class GlobMemo {
 public:
  explicit GlobMemo(GlobFilter filter) : filter_(std::move(filter)) {}

  bool Accepts(std::string_view text) {
    if (filter_.AcceptsAll()) return true;
    const auto at = accepted_.find(text);
    if (at != accepted_.end()) return at->second;
    return accepted_.emplace(text, filter_.Accepts(text)).first->second;
  }

 private:
  const GlobFilter filter_;
  std::map<std::string, bool, std::less<>> accepted_;
};

// For "did you mean": how far two words are apart, and the nearest of several.

// Characters to insert, delete, replace or swap with their neighbour to turn
// one word into the other.
int EditDistance(std::string_view a, std::string_view b);

// The first of the nearest candidates, or empty when none is near enough to be
// what was meant.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// ", did you mean X?" or nothing.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

// A set of numbers as users write it, for --calls and --rank: `3`, `10-20`, `30-`,
// `-5`, several with commas, and `@FILE` for a file of the same. Immutable once
// parsed; may be asked from any thread.

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

#endif  // TORCHTRACE_SERIALIZE_BASE_MATCHING_H_
