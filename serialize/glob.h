// Glob patterns over API names: the one meaning of --include and --exclude,
// for the recorder and for every verb. `*` is any run of characters, dots and
// colons included, `?` any one byte; everything else is itself, and the whole
// text must match. No function allocates; all may be called from any thread.

#ifndef TORCHTRACE_SERIALIZE_GLOB_H_
#define TORCHTRACE_SERIALIZE_GLOB_H_

#include <string>
#include <string_view>
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

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_GLOB_H_
