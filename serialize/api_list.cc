#include "serialize/api_list.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/simple_yaml.h"
#include "serialize/text_form.h"

namespace torchtrace {
namespace {

constexpr char kForms[] =
    "expected a list of API names: `- NAME` lines, a map with `apis:` or `supported:`, or a name a line";

// Where the operators of a back end's list stand: PyTorch's codegen reads these.
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
  explicit Reader(const std::string& name) : name_(name) {}

  absl::StatusOr<ApiList> Read(std::string_view text) {
    absl::Status status = LooksLikeYaml(text) ? ReadYaml(text) : ReadLines(text);
    if (!status.ok()) return status;
    if (list_.apis.empty()) return Wrong(name_, 1, kForms);
    return std::move(list_);
  }

 private:
  // By the first line that says something.
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

  absl::Status CheckName(std::string_view name, int line) const {
    const std::string shown = QuoteText(name.substr(0, 60));
    if (name.find('*') != std::string_view::npos || name.find('?') != std::string_view::npos) {
      return Wrong(name_, line, absl::StrCat(shown, " is a pattern: a list has names"));
    }
    for (const char c : name) {
      if (!IsNameCharacter(c)) return Wrong(name_, line, absl::StrCat(shown, " is no name of an API"));
    }
    if (name.empty() || name.front() == '.' || name.back() == '.') {
      return Wrong(name_, line, absl::StrCat(shown, " is no name of an API"));
    }
    return absl::OkStatus();
  }

  absl::Status Add(ApiEntry entry, int line) {
    if (absl::Status s = CheckName(entry.name, line); !s.ok()) return s;
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
    const absl::StatusOr<SimpleYaml> root = ParseSimpleYaml(text, name_);
    if (!root.ok()) return root.status();
    if (root->kind == SimpleYaml::kList) return ReadItems(*root);
    if (root->kind != SimpleYaml::kMap) return Wrong(name_, root->line, kForms);
    for (auto [key, to] : {std::pair("library", &list_.library), std::pair("version", &list_.version)}) {
      const SimpleYaml* const value = root->Find(key);
      if (value != nullptr && value->kind == SimpleYaml::kScalar) *to = value->scalar;
    }
    bool found = false;
    if (const SimpleYaml* const apis = root->Find("apis"); apis != nullptr) {
      found = true;
      if (absl::Status s = ReadItems(*apis); !s.ok()) return s;
    }
    for (const char* const key : kBackendKeys) {
      const SimpleYaml* const operators = root->Find(key);
      if (operators == nullptr) continue;
      found = true;
      if (absl::Status s = ReadOperators(*operators, key); !s.ok()) return s;
    }
    if (!found) return Wrong(name_, root->line, kForms);
    const SimpleYaml* const unread = root->Find("not_imported");
    if (unread != nullptr) {
      for (const SimpleYaml& item : unread->items) {
        UnreadModule module;
        if (const SimpleYaml* const value = item.Find("module"); value != nullptr) module.module = value->scalar;
        if (const SimpleYaml* const value = item.Find("reason"); value != nullptr) module.reason = value->scalar;
        list_.not_imported.push_back(std::move(module));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadOperators(const SimpleYaml& node, const std::string& key) {
    if (node.kind == SimpleYaml::kNull) return absl::OkStatus();
    if (node.kind != SimpleYaml::kList)
      return Wrong(name_, node.line, absl::StrCat("expected a list of operators in ", key));
    for (const SimpleYaml& item : node.items) {
      if (item.kind != SimpleYaml::kScalar) return Wrong(name_, item.line, "expected the name of an operator");
      ApiEntry entry;
      entry.kind = "operator";
      entry.name = item.scalar.find(':') == std::string::npos ? "aten::" + item.scalar : item.scalar;
      if (absl::Status s = Add(std::move(entry), item.line); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status ReadItems(const SimpleYaml& node) {
    if (node.kind == SimpleYaml::kNull) return absl::OkStatus();
    if (node.kind != SimpleYaml::kList) return Wrong(name_, node.line, "expected a list of API names");
    list_.apis.reserve(node.items.size());
    for (const SimpleYaml& item : node.items) {
      ApiEntry entry;
      if (item.kind == SimpleYaml::kScalar) {
        entry.name = item.scalar;
      } else if (item.kind == SimpleYaml::kMap) {
        if (absl::Status s = ReadEntry(item, &entry); !s.ok()) return s;
      } else {
        return Wrong(name_, item.line, "expected an API: NAME or {api: NAME, ...}");
      }
      if (absl::Status s = Add(std::move(entry), item.line); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  // What else a map has is another tool's.
  absl::Status ReadEntry(const SimpleYaml& map, ApiEntry* entry) const {
    const SimpleYaml* const api = map.Find("api");
    if (api == nullptr || api->kind != SimpleYaml::kScalar) {
      return Wrong(name_, map.line, "expected an API: NAME or {api: NAME, ...}");
    }
    entry->name = api->scalar;
    if (const SimpleYaml* const kind = map.Find("kind"); kind != nullptr) entry->kind = kind->scalar;
    if (const SimpleYaml* const value = map.Find("public"); value != nullptr)
      entry->is_public = value->scalar == "true";
    for (auto [key, to] : {std::pair("aliases", &entry->aliases), std::pair("operators", &entry->operators),
                           std::pair("composite", &entry->composite), std::pair("elsewhere", &entry->elsewhere)}) {
      const SimpleYaml* const names = map.Find(key);
      if (names == nullptr) continue;
      if (names->kind != SimpleYaml::kList) return Wrong(name_, names->line, absl::StrCat("expected a list in ", key));
      for (const SimpleYaml& name : names->items) {
        if (absl::Status s = CheckName(name.scalar, name.line); !s.ok()) return s;
        to->push_back(name.scalar);
      }
    }
    const SimpleYaml* const levels = map.Find("levels");
    if (levels == nullptr) return absl::OkStatus();
    for (const SimpleYaml& item : levels->items) {
      int level = 0;
      if (!absl::SimpleAtoi(item.scalar, &level) || level < 0 || level > 9) {
        return Wrong(name_, item.line, "expected numbers in levels");
      }
      entry->levels.push_back(level);
    }
    return absl::OkStatus();
  }

  const std::string& name_;
  ApiList list_;
  absl::flat_hash_set<std::string> seen_;
};

void AppendNames(const char* key, const std::vector<std::string>& names, std::string* text) {
  if (!names.empty()) absl::StrAppend(text, ", ", key, ": [", absl::StrJoin(names, ", "), "]");
}

// In double quotes, as simple_yaml.h and every YAML reader take it.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return quoted + "\"";
}

}  // namespace

absl::StatusOr<ApiList> ParseApiList(std::string_view text, const std::string& name) { return Reader(name).Read(text); }

absl::StatusOr<ApiList> ReadApiList(const std::string& path) {
  std::string text;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "rb"), fclose);
  if (file != nullptr) {
    char buffer[1 << 16];
    for (size_t bytes; (bytes = fread(buffer, 1, sizeof buffer, file.get())) > 0;) text.append(buffer, bytes);
  }
  if (file == nullptr || ferror(file.get()) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  }
  return ParseApiList(text, path);
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

}  // namespace torchtrace
