// Glob patterns over API names: the one meaning of --include and --exclude,
// for the recorder and for every verb. `*` is any run of characters, dots and
// colons included, `?` any one byte, `[ab-d]` one byte of those and `[!ab-d]` one
// other byte; everything else is itself, and the whole text must match. No
// function allocates, and all may be called from any thread, but for GlobMemo's.

#ifndef TORCHTRACE_SERIALIZE_BASE_GLOB_H_
#define TORCHTRACE_SERIALIZE_BASE_GLOB_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torchtrace {

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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_GLOB_H_
