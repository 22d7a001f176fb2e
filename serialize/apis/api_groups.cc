#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "serialize/apis/apis.h"
#include "serialize/base/matching.h"
#include "serialize/base/read_file.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

// Generated from api_groups.yaml: see BUILD.
constexpr char kBuiltIn[] =
#include "serialize/apis/api_groups_yaml.inc"
    ;

// Appends all names that calls of `name` may have in a trace.
void AppendSpellings(const std::string& name, std::vector<std::string>* globs) {
  for (const char* const prefix :
       {"torch.", "torch.Tensor.", "torch.nn.functional.", "torch.special.", "torch.ops.aten.",
        "aten::", "aten::special_", "paddle.", "paddle.Tensor.", "paddle.nn.functional."}) {
    for (const char* const in_place : {"", "_"}) {
      const std::string spelled = absl::StrCat(prefix, name, in_place);
      globs->push_back(spelled);
      if (prefix[0] == 'a' || std::string_view(prefix) == "torch.ops.aten.") globs->push_back(spelled + ".*");
    }
  }
}

absl::Status Wrong(const std::string& file, const YAML::Mark& mark, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", mark.line + 1, ": ", expected));
}

// With the place of each.
absl::StatusOr<std::vector<WrittenName>> ReadList(const YAML::Node& node, const std::string& what,
                                                  const std::string& file) {
  std::vector<WrittenName> items;
  if (!node.IsSequence()) return Wrong(file, node.Mark(), absl::StrCat("expected a list of ", what));
  for (const YAML::Node& item : node) {
    if (!item.IsScalar() || item.Scalar().empty()) {
      return Wrong(file, item.Mark(), absl::StrCat("expected one of the ", what, ", a text"));
    }
    items.push_back({item.Scalar(), absl::StrCat(file, ":", item.Mark().line + 1, ": "), {}});
  }
  return items;
}

// Whether the name is marked as `?NAME`; removes the mark.
bool MayBeUnknown(std::string* name) {
  if (name->size() < 2 || !name->starts_with('?')) return false;
  name->erase(0, 1);
  return true;
}

}  // namespace

absl::Status ApiGroups::Read(const std::string& text, const std::string& name) {
  // YAML ignores lines that begin with `%`.
  int line = 0;
  for (const auto part : absl::StrSplit(text, '\n')) {
    ++line;
    if (part.empty() || part[0] != '%' || part.substr(0, 5) == "%YAML" || part.substr(0, 4) == "%TAG") continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, ":", line, ": expected the name of a group without %, found ", part));
  }
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) return Wrong(name, root.Mark(), "expected a map of groups, `group: {names: [...]}`");
    for (const auto& entry : root) {
      const YAML::Node& key = entry.first;
      const YAML::Node& value = entry.second;
      if (!key.IsScalar() || key.Scalar().empty()) return Wrong(name, key.Mark(), "expected the name of a group");
      if (key.Scalar().find_first_of("%?, ") != std::string::npos) {
        return Wrong(name, key.Mark(),
                     absl::StrCat("expected the name of a group, without % ? , and blanks, found ", key.Scalar()));
      }
      Group group;
      const auto add = [&group](const std::string& kind, WrittenName item) {
        if (kind == "groups") {
          group.groups.push_back(std::move(item.text));
          return;
        }
        const bool check = !MayBeUnknown(&item.text);
        if (kind == "names") {
          AppendSpellings(item.text, &item.globs);
        } else {
          item.globs = {item.text};
        }
        group.globs.insert(group.globs.end(), item.globs.begin(), item.globs.end());
        if (check) group.written.push_back(std::move(item));
      };
      if (value.IsSequence()) {
        absl::StatusOr<std::vector<WrittenName>> globs = ReadList(value, "globs", name);
        if (!globs.ok()) return globs.status();
        for (WrittenName& glob : *globs) add("globs", std::move(glob));
      } else if (value.IsMap()) {
        for (const auto& part : value) {
          const std::string kind = part.first.IsScalar() ? part.first.Scalar() : "";
          if (kind != "names" && kind != "globs" && kind != "groups") {
            return Wrong(name, part.first.Mark(), absl::StrCat("expected names, globs or groups in %", key.Scalar()));
          }
          absl::StatusOr<std::vector<WrittenName>> items = ReadList(part.second, kind, name);
          if (!items.ok()) return items.status();
          for (WrittenName& item : *items) add(kind, std::move(item));
        }
      } else {
        return Wrong(name, value.Mark(),
                     absl::StrCat("expected the globs of %", key.Scalar(), ", a list, or {names, globs, groups}"));
      }
      if (group.globs.empty() && group.groups.empty()) {
        return Wrong(name, key.Mark(), absl::StrCat("%", key.Scalar(), " has nothing in it"));
      }
      groups_[key.Scalar()] = std::move(group);
    }
  } catch (const YAML::Exception& error) {
    return Wrong(name, error.mark, absl::StrCat("is not YAML: ", error.msg));
  }
  return absl::OkStatus();
}

absl::Status ApiGroups::Check(const std::string& name) const {
  for (const auto& [group, content] : groups_) {
    std::vector<std::string> path;
    if (absl::Status status = CheckGroup(group, &path, name); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ApiGroups::CheckGroup(const std::string& group, std::vector<std::string>* path,
                                   const std::string& name) const {
  const auto at = groups_.find(group);
  if (at == groups_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": %", path->back(), " has an unknown group \"", group, "\"", DidYouMean(group, names())));
  }
  if (std::find(path->begin(), path->end(), group) != path->end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": %", group, " contains itself: ", absl::StrJoin(*path, " > "), " > ", group));
  }
  path->push_back(group);
  for (const std::string& inner : at->second.groups) {
    if (absl::Status status = CheckGroup(inner, path, name); !status.ok()) return status;
  }
  path->pop_back();
  return absl::OkStatus();
}

const ApiGroups& ApiGroups::BuiltIn() {
  static const ApiGroups* const groups = [] {
    auto* const built_in = new ApiGroups;
    // It has no errors: a test parses it too.
    built_in->Read(kBuiltIn, "api_groups.yaml").IgnoreError();
    // Built-in names need no check: each exists in some version of a framework.
    for (auto& [name, group] : built_in->groups_) group.written.clear();
    return built_in;
  }();
  return *groups;
}

absl::StatusOr<ApiGroups> ApiGroups::Parse(const std::string& text, const std::string& name) {
  ApiGroups groups = BuiltIn();
  if (absl::Status status = groups.Read(text, name); !status.ok()) return status;
  if (absl::Status status = groups.Check(name); !status.ok()) return status;
  return groups;
}

absl::StatusOr<ApiGroups> ApiGroups::Load(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (text.ok()) return Parse(*text, path);
  return absl::Status(text.status().code(), absl::StrCat("the groups: ", text.status().message()));
}

absl::StatusOr<std::vector<std::string>> ApiGroups::Expand(const std::vector<std::string>& patterns,
                                                           std::vector<WrittenName>* written) const {
  std::vector<std::string> globs;
  for (const std::string& pattern : patterns) {
    const bool optional = pattern.rfind("?%", 0) == 0;
    if (!optional && pattern.rfind('%', 0) != 0) {
      globs.push_back(pattern);
      continue;
    }
    const std::string group = pattern.substr(optional ? 2 : 1);
    if (groups_.count(group) != 0) {
      Append(group, &globs, written);
    } else if (optional) {
      globs.push_back(pattern);  // matches no name; an empty list would match all
    } else {
      const std::string nearest = Nearest(group, names());
      return absl::InvalidArgumentError(absl::StrCat("unknown group %", group,
                                                     nearest.empty()
                                                         ? absl::StrCat(" (groups: ", absl::StrJoin(names(), ", "), ")")
                                                         : absl::StrCat(", did you mean %", nearest, "?")));
    }
  }
  return globs;
}

void ApiGroups::Append(const std::string& group, std::vector<std::string>* globs,
                       std::vector<WrittenName>* written) const {
  const Group& content = groups_.at(group);
  globs->insert(globs->end(), content.globs.begin(), content.globs.end());
  if (written != nullptr) written->insert(written->end(), content.written.begin(), content.written.end());
  for (const std::string& inner : content.groups) Append(inner, globs, written);
}

std::vector<std::string> ApiGroups::names() const {
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) names.push_back(name);
  return names;
}

absl::StatusOr<GlobFilter> ExpandGroups(GlobFilter filter, const std::string& groups_file,
                                        std::vector<WrittenName>* written) {
  const auto has_group = [](const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(), [](const std::string& pattern) {
      return pattern.starts_with('%') || pattern.starts_with("?%");
    });
  };
  // Reading the built-in groups takes a millisecond: avoid it.
  if (groups_file.empty() && !has_group(filter.include) && !has_group(filter.exclude)) return filter;
  absl::StatusOr<ApiGroups> groups = groups_file.empty() ? ApiGroups::BuiltIn() : ApiGroups::Load(groups_file);
  if (!groups.ok()) return groups.status();
  for (std::vector<std::string>* const list : {&filter.include, &filter.exclude}) {
    absl::StatusOr<std::vector<std::string>> expanded = groups->Expand(*list, written);
    if (!expanded.ok()) return expanded.status();
    *list = *std::move(expanded);
  }
  return filter;
}

}  // namespace torchtrace
