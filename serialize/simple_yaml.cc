#include "serialize/simple_yaml.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

constexpr int kMaxDepth = 16;

struct Line {
  int number;
  size_t indent;
  std::string text;  // without indent, comment and blanks at the end
};

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// Where the colon of `key: value` or `key:` stands; npos: there is no key.
size_t KeyEnd(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && IsKeyCharacter(text[at])) ++at;
  const bool key = at > 0 && at < text.size() && text[at] == ':' && (at + 1 == text.size() || text[at + 1] == ' ');
  return key ? at : std::string_view::npos;
}

bool IsItem(std::string_view text) { return text == "-" || text.substr(0, 2) == "- "; }

std::string_view SkipBlanks(std::string_view text) {
  const size_t at = text.find_first_not_of(' ');
  return at == std::string_view::npos ? std::string_view() : text.substr(at);
}

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  absl::StatusOr<SimpleYaml> Parse(std::string_view text) {
    if (absl::Status s = Split(text); !s.ok()) return s;
    SimpleYaml root;
    if (lines_.empty()) return root;
    if (absl::Status s = Block(lines_[0].indent, 0, &root); !s.ok()) return s;
    if (at_ < lines_.size()) return Wrong(lines_[at_].number, "this is indented in another way than the lines before");
    return root;
  }

 private:
  absl::Status Wrong(int line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line, ": ", what));
  }

  // Fills lines_; lines within brackets are put together.
  absl::Status Split(std::string_view text) {
    if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
    int open = 0;  // brackets
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
      if (open == 0 && line.substr(0, 3) == "---" && SkipBlanks(line.substr(3)).empty()) {
        if (!lines_.empty()) return Wrong(number, "a second document; one is read");
        continue;
      }
      const size_t indent = line.find_first_not_of(' ');
      if (indent == std::string_view::npos) continue;
      line.remove_prefix(indent);
      const bool joined = open > 0;
      absl::StatusOr<std::string_view> content = Content(line, number, &open);
      if (!content.ok()) return content.status();
      if (content->empty()) continue;
      if (joined) {
        lines_.back().text += ' ';
        lines_.back().text.append(*content);
      } else {
        lines_.push_back({number, indent, std::string(*content)});
      }
    }
    if (open > 0) return Wrong(lines_.back().number, "a bracket is not closed");
    return absl::OkStatus();
  }

  // The line up to its comment, and how many brackets are open behind it.
  absl::StatusOr<std::string_view> Content(std::string_view line, int number, int* open) const {
    char quote = '\0';
    size_t end = 0;
    for (; end < line.size(); ++end) {
      const char c = line[end];
      if (quote != '\0') {
        if (quote == '"' && c == '\\') ++end;
        if (c == quote) quote = '\0';
        continue;
      }
      const char before = end == 0 ? ' ' : line[end - 1];
      if (c == '#' && before == ' ') break;
      if ((c == '"' || c == '\'') && (before == ' ' || before == '[' || before == '{' || before == ',')) quote = c;
      if (c == '[' || c == '{') ++*open;
      if ((c == ']' || c == '}') && *open > 0) --*open;
      if (static_cast<unsigned char>(c) < ' ' && c != '\r') return Wrong(number, "a tab or a control character");
    }
    if (quote != '\0') return Wrong(number, "a quoted text is not closed on its line");
    line = line.substr(0, std::min(end, line.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    return line;
  }

  // The list, map or scalar that begins at line at_ with that indent. `in_map`: as the
  // value of a key with the same indent.
  absl::Status Block(size_t indent, int depth, SimpleYaml* node, bool in_map = false) {
    const Line& first = lines_[at_];
    node->line = first.number;
    if (depth > kMaxDepth) return Wrong(first.number, "nested too deeply");
    if (IsItem(first.text)) return BlockList(indent, depth, in_map, node);
    if (KeyEnd(first.text) != std::string_view::npos) return BlockMap(indent, depth, node);
    ++at_;
    return Flow(first.text, first.number, node);
  }

  absl::Status BlockList(size_t indent, int depth, bool in_map, SimpleYaml* node) {
    node->kind = SimpleYaml::kList;
    while (at_ < lines_.size() && lines_[at_].indent == indent && IsItem(lines_[at_].text)) {
      Line& line = lines_[at_];
      SimpleYaml& item = node->items.emplace_back();
      item.line = line.number;
      const std::string rest(SkipBlanks(std::string_view(line.text).substr(1)));
      absl::Status status;
      if (rest.empty()) {
        ++at_;
        if (at_ < lines_.size() && lines_[at_].indent > indent) status = Block(lines_[at_].indent, depth + 1, &item);
      } else if (IsItem(rest) || KeyEnd(rest) != std::string_view::npos) {
        line.indent += line.text.size() - rest.size();
        line.text = rest;
        status = Block(line.indent, depth + 1, &item);
      } else {
        ++at_;
        status = Flow(rest, item.line, &item);
      }
      if (!status.ok()) return status;
    }
    // Below a key of the same indent, the next key ends the list.
    const bool next_key = in_map && at_ < lines_.size() && lines_[at_].indent == indent;
    return next_key ? absl::OkStatus() : Ended(indent, "expected the next `- ` of the list");
  }

  absl::Status BlockMap(size_t indent, int depth, SimpleYaml* node) {
    node->kind = SimpleYaml::kMap;
    while (at_ < lines_.size() && lines_[at_].indent == indent) {
      const Line& line = lines_[at_];
      const size_t colon = KeyEnd(line.text);
      if (colon == std::string_view::npos) break;
      node->keys.push_back(line.text.substr(0, colon));
      SimpleYaml& value = node->items.emplace_back();
      value.line = line.number;
      const std::string rest(SkipBlanks(std::string_view(line.text).substr(colon + 1)));
      ++at_;
      absl::Status status;
      if (!rest.empty()) {
        status = Flow(rest, value.line, &value);
      } else if (at_ < lines_.size() &&
                 (lines_[at_].indent > indent || (lines_[at_].indent == indent && IsItem(lines_[at_].text)))) {
        status = Block(lines_[at_].indent, depth + 1, &value, lines_[at_].indent == indent);
      }
      if (!status.ok()) return status;
    }
    return Ended(indent, "expected the next `key: value`");
  }

  absl::Status Ended(size_t indent, absl::string_view expected) const {
    if (at_ >= lines_.size() || lines_[at_].indent < indent) return absl::OkStatus();
    return Wrong(lines_[at_].number, expected);
  }

  absl::Status Flow(std::string_view text, int line, SimpleYaml* node) {
    if (absl::Status s = FlowValue(&text, line, 0, node); !s.ok()) return s;
    if (!SkipBlanks(text).empty()) return Wrong(line, absl::StrCat("did not expect `", Shown(text), "` there"));
    return absl::OkStatus();
  }

  static std::string Shown(std::string_view text) {
    text = SkipBlanks(text);
    return text.size() <= 40 ? std::string(text) : absl::StrCat(std::string(text.substr(0, 40)), "...");
  }

  // Takes a value off the beginning of `text`. `depth`: brackets around it.
  absl::Status FlowValue(std::string_view* text, int line, int depth, SimpleYaml* node) {
    *text = SkipBlanks(*text);
    node->line = line;
    if (depth > kMaxDepth) return Wrong(line, "nested too deeply");
    if (text->empty()) return absl::OkStatus();
    switch (text->front()) {
      case '[':
        return FlowList(text, line, depth, node);
      case '{':
        return FlowMap(text, line, depth, node);
      case '"':
      case '\'':
        return Quoted(text, line, node);
      case '&':
      case '*':
      case '!':
      case '|':
      case '>':
      case '%':
      case '@':
      case '`':
        return Wrong(line,
                     absl::StrCat("YAML that begins with `", std::string(1, text->front()), "` is not read here"));
      default:
        break;
    }
    size_t end = 0;
    while (end < text->size()) {
      const char c = (*text)[end];
      if (depth > 0 && (c == ',' || c == ']' || c == '}' || c == '[' || c == '{')) break;
      ++end;
    }
    std::string_view scalar = text->substr(0, end);
    text->remove_prefix(end);
    while (!scalar.empty() && scalar.back() == ' ') scalar.remove_suffix(1);
    if (scalar == "null" || scalar == "~") return absl::OkStatus();
    node->kind = SimpleYaml::kScalar;
    node->scalar = std::string(scalar);
    return absl::OkStatus();
  }

  absl::Status FlowList(std::string_view* text, int line, int depth, SimpleYaml* node) {
    node->kind = SimpleYaml::kList;
    text->remove_prefix(1);
    while (true) {
      *text = SkipBlanks(*text);
      if (text->substr(0, 1) == "]") break;
      if (absl::Status s = FlowValue(text, line, depth + 1, &node->items.emplace_back()); !s.ok()) return s;
      *text = SkipBlanks(*text);
      if (text->substr(0, 1) == "]") break;
      if (text->substr(0, 1) != ",") return Wrong(line, "expected `,` or `]`");
      text->remove_prefix(1);
    }
    text->remove_prefix(1);
    return absl::OkStatus();
  }

  absl::Status FlowMap(std::string_view* text, int line, int depth, SimpleYaml* node) {
    node->kind = SimpleYaml::kMap;
    text->remove_prefix(1);
    while (true) {
      *text = SkipBlanks(*text);
      if (text->substr(0, 1) == "}") break;
      size_t colon = 0;
      while (colon < text->size() && IsKeyCharacter((*text)[colon])) ++colon;
      if (colon == 0 || text->substr(colon, 2) != ": ") return Wrong(line, "expected `key: value` within { }");
      node->keys.emplace_back(text->substr(0, colon));
      SimpleYaml& value = node->items.emplace_back();
      text->remove_prefix(colon + 1);
      if (absl::Status s = FlowValue(text, line, depth + 1, &value); !s.ok()) return s;
      *text = SkipBlanks(*text);
      if (text->substr(0, 1) == "}") break;
      if (text->substr(0, 1) != ",") return Wrong(line, "expected `,` or `}`");
      text->remove_prefix(1);
    }
    text->remove_prefix(1);
    return absl::OkStatus();
  }

  absl::Status Quoted(std::string_view* text, int line, SimpleYaml* node) {
    const char quote = text->front();
    node->kind = SimpleYaml::kScalar;
    size_t at = 1;
    for (; at < text->size(); ++at) {
      const char c = (*text)[at];
      if (c == quote) {
        if (quote == '"' || text->substr(at + 1, 1) != "'") break;
        ++at;  // '' is one quote
      } else if (quote == '"' && c == '\\') {
        const char escaped = at + 1 < text->size() ? (*text)[++at] : '\0';
        if (escaped != '"' && escaped != '\\' && escaped != 'n' && escaped != 't') {
          return Wrong(line, R"(only \", \\, \n and \t are read in a quoted text)");
        }
        node->scalar += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
        continue;
      }
      node->scalar += c;
    }
    if (at >= text->size()) return Wrong(line, "a quoted text is not closed on its line");
    text->remove_prefix(at + 1);
    return absl::OkStatus();
  }

  const std::string& name_;
  std::vector<Line> lines_;
  size_t at_ = 0;
};

}  // namespace

const SimpleYaml* SimpleYaml::Find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

absl::StatusOr<SimpleYaml> ParseSimpleYaml(std::string_view text, const std::string& name) {
  return Parser(name).Parse(text);
}

}  // namespace torchtrace
