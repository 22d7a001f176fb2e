// Matching what users write: names by globs, numbers by ranges, and suggestions for misspelled names.

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

// Matches a glob against an API name, for --include and --exclude of the recorder and of every verb. `*` is any run of
// characters, dots and colons included, `?` any one byte, `[ab-d]` one byte of those and `[!ab-d]` one other byte;
// everything else is itself. The whole text must match. Allocates nothing; callable from any thread.
bool GlobMatch(std::string_view pattern, std::string_view text);

// Accepts names that match one of `include` (or all names, if it is empty) and none of `exclude`. Accepts allocates
// nothing and is callable from any thread.
struct GlobFilter {
  std::vector<std::string> include;
  std::vector<std::string> exclude;

  bool Accepts(std::string_view text) const;
  bool AcceptsAll() const { return include.empty() && exclude.empty(); }
};

// A GlobFilter with a cache, for texts that repeat: groups of APIs are thousands of globs. Not thread-safe.
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

// The number of characters to insert, delete, replace or swap with their
// neighbour to turn one word into the other.
int EditDistance(std::string_view a, std::string_view b);

// The nearest candidate (the first of several), or empty if none is near enough to suggest.
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

// ", did you mean X?", or empty.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& candidates);

// A set of numbers as users write it, for --calls and --rank: `3`, `10-20`, `30-`,
// `-5`, several with commas, or `@FILE` for a file of them. Immutable once
// parsed; callable from any thread.
class NumberSet {
 public:
  // In a file, numbers and ranges are separated by commas or white space; lines that
  // start with # are skipped. InvalidArgument says what was expected, and in which
  // line; NotFound names a file that can't be read.
  static absl::StatusOr<NumberSet> Parse(std::string_view text);

  bool Contains(uint64_t number) const;
  // Ascending pairs of the first and last number of each range, both included.
  const std::vector<std::pair<uint64_t, uint64_t>>& ranges() const { return ranges_; }

 private:
  absl::Status Add(std::string_view item, const std::string& where);
  absl::Status AddFile(const std::string& path);
  void Arrange();

  std::vector<std::pair<uint64_t, uint64_t>> ranges_;  // sorted, no two adjacent
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_MATCHING_H_
