#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "serialize/apis/apis.h"
#include "serialize/base/json_member.h"
#include "serialize/base/read_file.h"
#include "serialize/base/version_spans.h"
#include "serialize/forms/forms.h"
#include "serialize/model/config.h"
#include "serialize/model/torch_names.h"
#include "serialize/trace/run_facts.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

constexpr char kForms[] =
    "expected a list of API names: `- NAME` lines, a map with `apis:` or `supported:`, or a name a line";

constexpr char kEntryForms[] = "expected an API: NAME or {api: NAME, ...}";

// The keys of a back end's operators, which PyTorch's codegen reads.
constexpr const char* kBackendKeys[] = {"supported", "autograd", "full_codegen", "ir_gen"};

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '<' || c == '>' || c == '-' || static_cast<unsigned char>(c) >= 0x80;
}

absl::Status Wrong(const std::string& file, int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file, ":", line, ": ", what));
}

class Reader {
 public:
  Reader(const std::string& name, const std::string& version) : name_(name), wanted_(ParseMinorVersion(version)) {}

  absl::StatusOr<ApiList> Read(std::string_view text) {
    absl::Status status = LooksLikeYaml(text) ? ReadYaml(text) : ReadLines(text);
    if (!status.ok()) return status;
    if (list_.apis.empty()) return Wrong(name_, 1, kForms);
    return std::move(list_);
  }

 private:
  // Decides by the first line that is neither empty nor a comment.
  static bool LooksLikeYaml(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    while (!text.empty()) {
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      const size_t begin = line.find_first_not_of(" \r");
      if (begin == std::string_view::npos || line[begin] == '#') continue;
      line.remove_prefix(begin);
      if (line[0] == '-' || line[0] == '[' || line[0] == '{' || line[0] == '%') return true;
      const size_t colon = line.find(':');
      return colon != std::string_view::npos &&
             (colon + 1 == line.size() || line[colon + 1] == ' ' || line[colon + 1] == '\r');
    }
    return false;
  }

  // The line where a second YAML document begins; 0: none. yaml-cpp's LoadAll never returns on some texts.
  static int SecondDocument(std::string_view text) {
    bool content = false;
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (line.substr(0, 3) == "---") {
        if (content) return number;
      } else {
        content = content || (!line.empty() && line[0] != '#' && line[0] != '%');
      }
    }
    return 0;
  }

  absl::Status CheckName(std::string_view name, int line) const {
    const std::string shown = QuoteText(name.substr(0, 60));
    if (name.find('*') != std::string_view::npos || name.find('?') != std::string_view::npos) {
      return Wrong(name_, line, absl::StrCat(shown, " is a pattern: a list has names"));
    }
    for (const char c : name) {
      if (!IsNameCharacter(c)) return Wrong(name_, line, absl::StrCat(shown, " is not the name of an API"));
    }
    if (name.empty() || name.front() == '.' || name.back() == '.') {
      return Wrong(name_, line, absl::StrCat(shown, " is not the name of an API"));
    }
    return absl::OkStatus();
  }

  absl::Status Add(ApiEntry entry, int line) {
    if (entry.name.starts_with('?')) {
      entry.name.erase(0, 1);
      entry.known_by_user = true;
    }
    if (absl::Status s = CheckName(entry.name, line); !s.ok()) return s;
    entry.line = line;
    if (seen_.insert(entry.name).second) list_.apis.push_back(std::move(entry));
    return absl::OkStatus();
  }

  absl::Status ReadLines(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      line = line.substr(0, line.find('#'));
      while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
      while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
      if (line.empty()) continue;
      ApiEntry entry;
      entry.name = std::string(line);
      if (absl::Status s = Add(std::move(entry), number); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadYaml(std::string_view text) {
    if (const int line = SecondDocument(text); line > 0) return Wrong(name_, line, "a second document; expected one");
    try {
      return ReadRoot(YAML::Load(std::string(text)));
    } catch (const YAML::Exception& error) {
      return Wrong(name_, error.mark.line + 1, absl::StrCat("is not YAML: ", error.msg));
    }
  }

  absl::Status WrongAt(const YAML::Node& node, absl::string_view what) const {
    return Wrong(name_, node.Mark().line + 1, what);
  }

  absl::Status ReadRoot(const YAML::Node& root) {
    if (root.IsSequence()) return ReadItems(root);
    if (!root.IsMap()) return WrongAt(root, kForms);
    if (absl::Status s = ChooseVersion(root["versions"]); !s.ok()) return s;
    bool found = false;
    for (const auto& pair : root) {
      const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
      const YAML::Node& value = pair.second;
      absl::Status status;
      if (key == "library" && value.IsScalar()) {
        list_.library = value.Scalar();
      } else if (key == "version" && value.IsScalar()) {
        list_.version = value.Scalar();
      } else if (key == "apis") {
        found = true;
        status = ReadItems(value);
      } else if (std::find(std::begin(kBackendKeys), std::end(kBackendKeys), key) != std::end(kBackendKeys)) {
        found = true;
        status = ReadOperators(value, key);
      } else if (key == "not_imported" && value.IsSequence()) {
        ReadUnread(value);
      }
      if (!status.ok()) return status;
    }
    return found ? absl::OkStatus() : WrongAt(root, kForms);
  }

  // Chooses the version to read from a list for several versions.
  absl::Status ChooseVersion(const YAML::Node& versions) {
    if (!versions || !versions.IsSequence()) return absl::OkStatus();
    for (const YAML::Node& item : versions) {
      const std::optional<MinorVersion> version =
          item.IsScalar() ? ParseMinorVersion(item.Scalar()) : std::optional<MinorVersion>();
      if (!version) return WrongAt(item, "expected versions, oldest first: [\"2.9\", \"2.10\"]");
      if (!version_ || !wanted_ || *version <= *wanted_) version_ = version;
    }
    if (version_) list_.version = FormatMinorVersion(*version_);
    return absl::OkStatus();
  }

  void ReadUnread(const YAML::Node& node) {
    for (const YAML::Node& item : node) {
      if (!item.IsMap()) continue;
      UnreadModule& unread = list_.not_imported.emplace_back();
      for (const auto& pair : item) {
        if (!pair.first.IsScalar() || !pair.second.IsScalar()) continue;
        if (pair.first.Scalar() == "module") unread.module = pair.second.Scalar();
        if (pair.first.Scalar() == "reason") unread.reason = pair.second.Scalar();
      }
    }
  }

  absl::Status ReadOperators(const YAML::Node& node, const std::string& key) {
    if (node.IsNull()) return absl::OkStatus();
    if (!node.IsSequence()) return WrongAt(node, absl::StrCat("expected a list of operators in ", key));
    for (const YAML::Node& item : node) {
      if (!item.IsScalar()) return WrongAt(item, "expected the name of an operator");
      ApiEntry entry;
      entry.kind = "operator";
      const std::string& name = item.Scalar();
      entry.name = CanonicalName(name).find("::") == std::string::npos ? "aten::" + name : name;
      if (absl::Status s = Add(std::move(entry), item.Mark().line + 1); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadItems(const YAML::Node& node) {
    if (node.IsNull()) return absl::OkStatus();
    if (!node.IsSequence()) return WrongAt(node, "expected a list of API names");
    list_.apis.reserve(node.size());
    for (const YAML::Node& item : node) {
      ApiEntry entry;
      if (item.IsScalar()) {
        entry.name = item.Scalar();
      } else if (item.IsMap()) {
        const YAML::Node versions = version_ ? item["versions"] : YAML::Node(YAML::NodeType::Undefined);
        if (versions && versions.IsScalar() && !IsAmong(versions.Scalar(), *version_)) continue;
        if (absl::Status s = ReadEntry(item, &entry); !s.ok()) return s;
      } else {
        return WrongAt(item, kEntryForms);
      }
      if (absl::Status s = Add(std::move(entry), item.Mark().line + 1); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // Ignores other keys: they are other tools'.
  absl::Status ReadEntry(const YAML::Node& map, ApiEntry* entry) const {
    bool named = false;
    for (const auto& pair : map) {
      const std::string key = pair.first.IsScalar() ? pair.first.Scalar() : "";
      const YAML::Node& value = pair.second;
      absl::Status status;
      if (key == "api") {
        if (!value.IsScalar()) return WrongAt(map, kEntryForms);
        named = true;
        entry->name = value.Scalar();
      } else if (key == "kind" && value.IsScalar()) {
        entry->kind = value.Scalar();
      } else if (key == "public" && value.IsScalar()) {
        entry->is_public = value.Scalar() == "true";
      } else if (key == "aliases") {
        status = ReadNames(value, key, &entry->aliases);
      } else if (key == "operators") {
        status = ReadNames(value, key, &entry->operators);
      } else if (key == "composite") {
        status = ReadNames(value, key, &entry->composite);
      } else if (key == "elsewhere") {
        status = ReadNames(value, key, &entry->elsewhere);
      } else if (key == "levels") {
        status = ReadLevels(value, &entry->levels);
      }
      if (!status.ok()) return status;
    }
    return named ? absl::OkStatus() : WrongAt(map, kEntryForms);
  }

  absl::Status ReadNames(const YAML::Node& node, const std::string& key, std::vector<std::string>* names) const {
    if (!node.IsSequence()) return WrongAt(node, absl::StrCat("expected a list in ", key));
    for (const YAML::Node& item : node) {
      const std::string name = item.IsScalar() ? item.Scalar() : "";
      if (absl::Status s = CheckName(name, item.Mark().line + 1); !s.ok()) return s;
      names->push_back(name);
    }
    return absl::OkStatus();
  }

  absl::Status ReadLevels(const YAML::Node& node, std::vector<int>* levels) const {
    if (!node.IsSequence()) return WrongAt(node, "expected numbers in levels");
    for (const YAML::Node& item : node) {
      int level = 0;
      if (!item.IsScalar() || !absl::SimpleAtoi(item.Scalar(), &level) || level < 0 || level > 9) {
        return WrongAt(item, "expected numbers in levels");
      }
      levels->push_back(level);
    }
    return absl::OkStatus();
  }

  const std::string& name_;
  const std::optional<MinorVersion> wanted_;
  std::optional<MinorVersion> version_;  // the chosen one, of a list for several
  ApiList list_;
  absl::flat_hash_set<std::string> seen_;
};

void AppendNames(const char* key, const std::vector<std::string>& names, std::string* text) {
  if (!names.empty()) absl::StrAppend(text, ", ", key, ": [", absl::StrJoin(names, ", "), "]");
}

// In double quotes.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

absl::StatusOr<ApiList> ParseApiList(std::string_view text, const std::string& name, const std::string& version) {
  return Reader(name, version).Read(text);
}

bool IsOfVersion(const ApiList& list, std::string_view version) {
  if (version.substr(0, list.version.size()) != list.version) return false;
  const std::string_view rest = version.substr(list.version.size());
  // "2.1" does not match 2.13.
  return rest.empty() || (!list.version.empty() && list.version.find('.') == list.version.rfind('.') && rest[0] == '.');
}

absl::StatusOr<ApiList> ReadApiList(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  return text.ok() ? ParseApiList(*text, path) : text.status();
}

std::string FormatApiList(const ApiList& list, std::string_view comment) {
  std::string text(comment);
  if (!list.library.empty()) absl::StrAppend(&text, "library: ", list.library, "\n");
  if (!list.version.empty()) absl::StrAppend(&text, "version: ", Quoted(list.version), "\n");
  absl::StrAppend(&text, "apis:\n");
  for (const ApiEntry& entry : list.apis) {
    absl::StrAppend(&text, "- {api: ", entry.name);
    if (!entry.kind.empty()) absl::StrAppend(&text, ", kind: ", entry.kind);
    if (entry.is_public) absl::StrAppend(&text, ", public: true");
    if (!entry.levels.empty()) absl::StrAppend(&text, ", levels: [", absl::StrJoin(entry.levels, ", "), "]");
    AppendNames("operators", entry.operators, &text);
    AppendNames("composite", entry.composite, &text);
    AppendNames("aliases", entry.aliases, &text);
    AppendNames("elsewhere", entry.elsewhere, &text);
    absl::StrAppend(&text, "}\n");
  }
  if (list.not_imported.empty()) return text;
  absl::StrAppend(&text, "not_imported:\n");
  for (const UnreadModule& module : list.not_imported) {
    absl::StrAppend(&text, "- {module: ", Quoted(module.module), ", reason: ", Quoted(module.reason), "}\n");
  }
  return text;
}

namespace {

using nlohmann::json;

const json* OwnOperators(const ProcessInfo& process) {
  const json* const operators = process.metadata == nullptr ? nullptr : FindMember(*process.metadata, kOperatorsKey);
  return operators != nullptr && operators->is_object() ? operators : nullptr;
}

}  // namespace

std::set<std::string> PackageVersions(const Trace& trace, const std::string& package) {
  std::set<std::string> versions;
  for (const ProcessInfo& process : trace.processes()) versions.insert(process.known.PackageVersion(package));
  versions.erase("");
  return versions;
}

const json* FindOperators(const Trace& trace, const ProcessInfo& process) {
  if (const json* const own = OwnOperators(process); own != nullptr) return own;
  const std::string version = process.known.PackageVersion("torch");
  if (version.empty()) return nullptr;
  for (const ProcessInfo& other : trace.processes()) {
    const json* const operators = OwnOperators(other);
    if (operators != nullptr && other.known.PackageVersion("torch") == version) return operators;
  }
  return nullptr;
}

absl::Status AddOperators(const Trace& trace, std::string_view name, std::string_view space, ApiList* list) {
  std::set<std::string> names;
  for (const ApiEntry& entry : list->apis) names.insert(entry.name);
  const size_t before = names.size();
  bool told = false;
  std::set<const json*> seen;
  for (const ProcessInfo& process : trace.processes()) {
    const json* const operators = FindOperators(trace, process);
    if (operators == nullptr || !seen.insert(operators).second) continue;
    const json* const inside = FindMember(*operators, std::string(space).c_str());
    if (inside == nullptr || !inside->is_string()) continue;
    told = true;
    for (const auto part : absl::StrSplit(inside->get_ref<const std::string&>(), ' ', absl::SkipEmpty())) {
      names.insert(absl::StrCat(std::string(space), "::", part));
    }
    if (list->version.empty()) list->version = process.known.PackageVersion("torch");
  }
  if (!told) {
    return absl::NotFoundError(
        absl::StrCat(std::string(name),
                     " does not say which operators its PyTorch had: it is not of `run`, is of an older torchtrace, or "
                     "the program did not import torch; give a --list FILE"));
  }
  list->library = "torch";
  if (names.size() == before) return absl::OkStatus();
  list->apis.clear();
  for (const std::string& operator_name : names) {
    ApiEntry& entry = list->apis.emplace_back();
    entry.name = operator_name;
    entry.kind = "operator";
    entry.levels = {2};
  }
  return absl::OkStatus();
}

absl::Status AppendNames(Trace* trace, std::string* lines) {
  if (const absl::StatusOr<std::vector<uint64_t>> calls = trace->Count(); !calls.ok()) return calls.status();
  absl::flat_hash_set<std::string_view> seen;
  for (size_t config = 0; config < trace->config_count(); ++config) {
    const std::string_view api = ReadConfigHead(trace->identity(static_cast<ConfigId>(config))).api;
    if (seen.insert(api).second) absl::StrAppend(lines, std::string(api), "\n");
  }
  for (const ProcessInfo& process : trace->processes()) {
    const json* const operators = OwnOperators(process);
    if (operators == nullptr) continue;
    for (const auto& [space, names] : operators->items()) {
      if (!names.is_string()) continue;
      for (const auto name : absl::StrSplit(names.get_ref<const std::string&>(), ' ', absl::SkipEmpty())) {
        absl::StrAppend(lines, space, "::", name, "\n");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace torchtrace
