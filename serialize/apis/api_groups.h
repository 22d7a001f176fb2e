// Groups of APIs and operators: what `%nn` and `%inplace` stand for where globs
// over API names are taken. The built-in ones are api_groups.yaml, which is part
// of the executable; users add their own in the same format (docs/FILTER.md).
// A group is nothing but globs, so that the recorder needs to know of none.

#ifndef TORCHTRACE_SERIALIZE_APIS_API_GROUPS_H_
#define TORCHTRACE_SERIALIZE_APIS_API_GROUPS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace torchtrace {

class ApiGroups {
 public:
  // What is in api_groups.yaml.
  static const ApiGroups& BuiltIn();

  // The built-in groups and those of a file, which may refer to built-in ones and
  // take their names. Errors name the file, the line and what was expected.
  static absl::StatusOr<ApiGroups> Load(const std::string& path);
  // The same of a text; `name` stands in its place in errors.
  static absl::StatusOr<ApiGroups> Parse(const std::string& text, const std::string& name);

  // Each `%group` among `patterns` replaced by its globs, and every other pattern as it is.
  // InvalidArgument for an unknown group, with the nearest name; `?%group` then stands for
  // nothing.
  absl::StatusOr<std::vector<std::string>> Expand(const std::vector<std::string>& patterns) const;

  // Sorted, without the `%`.
  std::vector<std::string> names() const;

 private:
  struct Group {
    std::vector<std::string> globs;  // those of its names among them
    std::vector<std::string> groups;
  };

  absl::Status Read(const std::string& text, const std::string& name);
  // Every group that a group refers to is there, and none contains itself.
  absl::Status Check(const std::string& name) const;
  absl::Status CheckGroup(const std::string& group, std::vector<std::string>* path, const std::string& name) const;
  void Append(const std::string& group, std::vector<std::string>* globs) const;

  std::map<std::string, Group> groups_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_APIS_API_GROUPS_H_
