// What APIs are called: which names are one API's, which names there are, and what users mean by one.

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

// Known names: those of the frameworks (dialects/table), of a trace, of what will be traced.
//
//   torch.conv2d torch.nn.functional.conv2d     a line of a table: all names of one API, tabs between
//   aten::conv2d                                an operator; one without overload stands for all of them
//
// Immutable, so callable from any thread.
class ApiNames {
 public:
  // The tables outlive it.
  explicit ApiNames(const std::vector<std::string_view>& tables);

  // The pattern (a glob over names; without `*?[` it is a name), and what else calls of the same APIs
  // are recorded as: their other names; all overloads of an operator that is named without one; the reads
  // and writes of a property.
  std::vector<std::string> Resolve(const std::string& pattern) const;

  // Whether what the pattern comes to matches a known name.
  bool Has(const std::string& pattern) const;
  // The same, or that it may be an overload of an operator whose overloads aren't known.
  bool Knows(const std::string& pattern) const;
  // The same of one of the globs that it stands for.
  bool Has(const WrittenName& name) const;
  bool Knows(const WrittenName& name) const;

  // The known name within a slip or two of the pattern, or the glob with one in it; empty: none.
  std::string Near(std::string_view pattern) const;
  // The same, or the shortest name that ends in the same part, or in one that is near it.
  std::string Suggest(std::string_view pattern) const;

  // Gives each entry of the list the names that it lacks, as `elsewhere`.
  void AddOtherNames(ApiList* list) const;

 private:
  struct Name {
    std::string_view text;
    uint32_t api;  // index into apis_
  };

  // The names that the glob matches, until `visit` returns true; whether it has.
  template <typename Visit>
  bool ForEachMatch(std::string_view pattern, const Visit& visit) const;

  std::vector<Name> names_;  // sorted
  std::vector<std::vector<std::string_view>> apis_;
};

// What --include and --exclude come to.
struct NameFilter {
  GlobFilter globs;
  // What was typed, and what stands in groups of users, `?NAME` left out: each should be known.
  std::vector<WrittenName> written;
};

// Replaces groups by their globs (ExpandGroups), names by all names of their APIs, and `?NAME` by NAME.
absl::StatusOr<NameFilter> ExpandNames(const GlobFilter& typed, const std::string& groups_file, const ApiNames& names);

// InvalidArgument for a name or glob that nothing known matches: tells where it stands, and the nearest name.
absl::Status UnknownName(const WrittenName& name, const ApiNames& names);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_API_NAMES_H_
