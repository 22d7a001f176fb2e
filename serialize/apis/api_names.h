// The names of APIs: all known names, which of them mean the same API, and what a user's pattern matches.

#ifndef TORCHTRACE_SERIALIZE_APIS_API_NAMES_H_
#define TORCHTRACE_SERIALIZE_APIS_API_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/apis/apis.h"
#include "serialize/base/matching.h"

namespace torchtrace {

// Known names: of the frameworks (dialects/table), of a trace, of the program to trace.
//
//   torch.conv2d torch.nn.functional.conv2d     a line of a table: all names of one API, separated by tabs
//   aten::conv2d                                an operator; without an overload it means all of them
//
// Immutable, so callable from any thread.
class ApiNames {
 public:
  // The tables must outlive it.
  explicit ApiNames(const std::vector<std::string_view>& tables);

  // The pattern (a glob over names, or a name if it has no `*?[`), and the other names under which calls of the
  // same APIs are recorded: their aliases; all overloads of an operator that is named without one; the reads and
  // writes of a property.
  std::vector<std::string> Resolve(const std::string& pattern) const;

  // Whether the pattern, resolved, matches a known name.
  bool Has(const std::string& pattern) const;
  // The same; also true for an overload of an operator whose overloads are unknown.
  bool Knows(const std::string& pattern) const;
  // The same for any of the globs of `name`.
  bool Has(const WrittenName& name) const;
  bool Knows(const WrittenName& name) const;

  // The known name nearest to the pattern, at most two typing errors away; for a glob, a glob with that name; empty:
  // none.
  std::string Near(std::string_view pattern) const;
  // The same, or else the shortest name whose last part is the same, or nearly the same.
  std::string Suggest(std::string_view pattern) const;

  // Adds the other names of each entry of the list, as `elsewhere`.
  void AddOtherNames(ApiList* list) const;

 private:
  struct Name {
    std::string_view text;
    uint32_t api;  // index into apis_
  };

  // Calls `visit` for the names that the glob matches until it returns true; returns whether it did.
  template <typename Visit>
  bool ForEachMatch(std::string_view pattern, const Visit& visit) const;

  std::vector<Name> names_;  // sorted
  std::vector<std::vector<std::string_view>> apis_;
};

// --include and --exclude, expanded.
struct NameFilter {
  GlobFilter globs;
  // The names that users typed or wrote in their groups, except `?NAME`; each should be known.
  std::vector<WrittenName> written;
};

// Replaces groups by their globs (ExpandGroups), names by all names of their APIs, and `?NAME` by NAME.
absl::StatusOr<NameFilter> ExpandNames(const GlobFilter& typed, const std::string& groups_file, const ApiNames& names);

// InvalidArgument for names or globs that no known name matches, with their places, and the nearest name for the first;
// OK for none.
absl::Status UnknownNames(const std::vector<WrittenName>& unknown, const ApiNames& names);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_API_NAMES_H_
