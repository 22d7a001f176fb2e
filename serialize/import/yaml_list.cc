#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/forms/plain_form.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/parser.h"

namespace torchtrace {
namespace {

constexpr size_t kMaxItemBytes = LineReader::kMaxLineBytes;

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

bool IsBlankOrComment(std::string_view line) {
  const auto first = std::find_if_not(line.begin(), line.end(), IsSpace);
  return first == line.end() || *first == '#';
}

// `---` and `...`, alone or with something after them.
bool IsMarker(std::string_view line, std::string_view marker) {
  return line.starts_with(marker) && (line.size() == 3 || IsSpace(line[3]));
}
bool IsItemStart(std::string_view line) { return line.starts_with("- ") || line == "-"; }

bool SkipDigits(std::string_view* text) {
  const size_t begin = text->size();
  while (!text->empty() && text->front() >= '0' && text->front() <= '9') text->remove_prefix(1);
  return text->size() < begin;
}

// Resolves a plain scalar as PyYAML does, because PyYAML leaves out quotes by its own rules: a float has a point, and
// a sign in its exponent.
Plain ResolveScalar(const std::string& text) {
  Plain plain;
  for (const char* const word : {"true", "True", "TRUE", "false", "False", "FALSE"}) {
    if (text != word) continue;
    plain.kind = Plain::kBool;
    plain.boolean = (word[0] | 0x20) == 't';
    return plain;
  }
  std::string_view rest = text;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::string_view magnitude = rest;
  for (const char* const word : {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"}) {
    if (magnitude != word) continue;
    const bool nan = word[1] == 'n' || word[1] == 'N';
    if (nan && magnitude.size() != text.size()) break;
    plain.kind = Plain::kFloat;
    plain.real = nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    if (negative) plain.real = -plain.real;
    return plain;
  }
  const bool digits = SkipDigits(&rest);
  const std::string signed_text = absl::StrCat(negative ? "-" : "", std::string(magnitude));
  if (digits && rest.empty()) {
    plain.kind = Plain::kInt;
    const auto [end, error] =
        std::from_chars(signed_text.data(), signed_text.data() + signed_text.size(), plain.integer);
    if (error == std::errc()) return plain;
    plain.kind = Plain::kBigInt;
    plain.text = signed_text;
    return plain;
  }
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    const bool fraction = SkipDigits(&rest);
    bool good = digits || fraction;
    if (rest.starts_with('e') || rest.starts_with('E')) {
      rest.remove_prefix(1);
      good = good && (rest.starts_with('-') || rest.starts_with('+'));
      if (good) rest.remove_prefix(1);
      good = good && SkipDigits(&rest);
    }
    if (good && rest.empty()) {
      plain.kind = Plain::kFloat;
      plain.real = std::strtod(signed_text.c_str(), nullptr);
      return plain;
    }
  }
  plain.kind = Plain::kString;
  plain.text = text;
  return plain;
}

class CallHandler : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { Scalar(mark, Plain(), "null"); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw YAML::ParserException(mark, "expected a value, found an alias, which is not supported");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    static constexpr std::string_view kTags = "tag:yaml.org,2002:";
    std::string_view type = tag;
    if (type.starts_with(kTags)) type.remove_prefix(kTags.size());
    const bool resolve = type == "?" || type == "int" || type == "float" || type == "bool";
    Plain plain;
    if (resolve) {
      plain = ResolveScalar(value);
    } else {
      plain.kind = Plain::kString;
      plain.text = value;
    }
    Scalar(mark, std::move(plain), value);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    Begin(mark, Plain::kList);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    Begin(mark, Plain::kMap);
    key_next_.back() = true;
  }
  void OnMapEnd() override { End(); }

  Plain TakeResult() { return builder_.TakeResult(); }

 private:
  void Scalar(const YAML::Mark& /*mark*/, Plain plain, const std::string& text) {
    if (IsKey()) {
      builder_.Key(text);
      key_next_.back() = false;
      return;
    }
    builder_.Add(std::move(plain));
    ValueIsThere();
  }
  void Begin(const YAML::Mark& mark, Plain::Kind kind) {
    if (IsKey()) throw YAML::ParserException(mark, "expected a key that is a scalar");
    if (!builder_.Begin(kind)) {
      throw YAML::ParserException(mark, absl::StrCat("expected at most ", kMaxPlainDepth, " levels of nesting"));
    }
    key_next_.push_back(false);
  }
  void End() {
    builder_.End();
    key_next_.pop_back();
    ValueIsThere();
  }
  bool IsKey() const { return !key_next_.empty() && key_next_.back(); }
  void ValueIsThere() {
    if (builder_.InMap()) key_next_.back() = true;
  }

  PlainBuilder builder_;
  std::vector<bool> key_next_;  // of each open list or map
};

// A piece of the file: an item of a list, or a document.
struct Piece {
  std::string text;
  uint64_t line = 0;  // of its first line
  bool is_item = false;
};

class YamlList : public CallSource {
 public:
  explicit YamlList(std::unique_ptr<InputFile> file)
      : file_(std::move(file)), configs_(file_->file_name().starts_with("api_configs")) {}

  std::string format() const override { return configs_ ? "configurations as YAML" : "calls as YAML"; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  std::vector<std::string> notes() const override {
    if (configs_) return {};
    return {absl::StrCat(
        file_->name(),
        " is YAML without times, outcomes, threads and nesting; levels that it doesn't say are guessed from names")};
  }

  absl::Status Scan(const Visitor& visit) override {
    LineReader lines(file_.get());
    IdentityCache cache;
    Piece piece;
    const auto finish = [&]() -> absl::Status {
      if (piece.text.empty()) return absl::OkStatus();
      absl::Status s = ScanPiece(piece, &cache, visit);
      piece = Piece();
      return s;
    };
    bool in_document = false;  // its first line with content was seen
    bool is_list = false;
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) return finish();
      if (lines.number() == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
      if (IsMarker(line, "---") || IsMarker(line, "...")) {
        if (absl::Status s = finish(); !s.ok()) return s;
        in_document = false;
        line.remove_prefix(3);
        if (IsBlankOrComment(line)) continue;
        piece.text.append("   ");  // keeps the columns
      } else if (!in_document && (IsBlankOrComment(line) || line.starts_with('%'))) {
        continue;
      }
      if (!in_document) is_list = IsItemStart(line);
      in_document = true;
      if (is_list && IsItemStart(line)) {
        if (absl::Status s = finish(); !s.ok()) return s;
        piece.is_item = true;
      }
      if (piece.line == 0) piece.line = lines.number();
      const size_t begin = piece.text.size();
      piece.text.append(line);
      // Parse an item by itself as its content, with the same indentation.
      if (piece.is_item && begin == 0) piece.text[0] = ' ';
      piece.text.push_back('\n');
      if (piece.text.size() > kMaxItemBytes) {
        return absl::DataLossError(absl::StrCat(file_->name(), " line ", piece.line,
                                                ": expected a call, found more than ", kMaxItemBytes >> 20,
                                                " MiB without its end"));
      }
    }
  }

 private:
  absl::Status Error(uint64_t line, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(file_->name(), " line ", line, ", ", what));
  }

  absl::Status ScanPiece(const Piece& piece, IdentityCache* cache, const Visitor& visit) {
    if (const ParsedCall* const known = cache->Find(piece.text)) return Visit(*known, visit);
    Plain plain;
    if (absl::Status s = Parse(piece, &plain); !s.ok()) return s;
    if (plain.kind == Plain::kNull) return absl::OkStatus();
    if (plain.kind == Plain::kList && !piece.is_item) {
      for (const Plain& item : plain.items) {
        const absl::StatusOr<ParsedCall> call = ParsePlainCall(item);
        if (!call.ok()) return Error(piece.line, std::string(call.status().message()));
        if (absl::Status s = Visit(*call, visit); !s.ok()) return s;
      }
      return absl::OkStatus();
    }
    absl::StatusOr<ParsedCall> call = ParsePlainCall(plain);
    if (!call.ok()) return Error(piece.line, std::string(call.status().message()));
    return Visit(cache->Add(piece.text, *std::move(call)), visit);
  }

  static absl::Status Visit(const ParsedCall& call, const Visitor& visit) {
    ImportedCall imported;
    imported.identity = call.identity;
    imported.facets = call.facets;
    imported.count = call.count;
    return visit(imported);
  }

  absl::Status Parse(const Piece& piece, Plain* plain) const {
    try {
      std::istringstream stream(piece.text);
      YAML::Parser parser(stream);
      CallHandler handler;
      if (parser.HandleNextDocument(handler)) *plain = handler.TakeResult();
      CallHandler nothing;
      if (parser.HandleNextDocument(nothing)) return Error(piece.line, "expected one document");
      return absl::OkStatus();
    } catch (const YAML::Exception& error) {
      const uint64_t line = piece.line + static_cast<uint64_t>(std::max(0, error.mark.line));
      return Error(line,
                   absl::StrCat("column ", std::max(0, error.mark.column) + 1, ": ",
                                error.msg.starts_with("expected") ? "" : "expected YAML: ", ShortMessage(error.msg)));
    } catch (const std::exception& error) {
      return Error(piece.line, absl::StrCat("expected YAML: ", ShortMessage(error.what())));
    }
  }

  const std::unique_ptr<InputFile> file_;
  const bool configs_;
  const std::vector<ImportedProcess> processes_{1};
};

// Whether a line begins a call: `api:`, `- api:`, possibly with quotes, in a flow map, or with another member first.
bool BeginsCall(std::string_view line) {
  const bool item = IsItemStart(line);
  if (item) line.remove_prefix(1);
  while (!line.empty() && (line[0] == ' ' || line[0] == '{' || line[0] == '"' || line[0] == '\''))
    line.remove_prefix(1);
  for (const std::string_view key : {"api", "args", "kwargs"}) {
    if (!line.starts_with(key)) continue;
    std::string_view rest = line.substr(key.size());
    if (rest.starts_with('"') || rest.starts_with('\'')) rest.remove_prefix(1);
    if (rest.starts_with(':')) return true;
  }
  return false;
}

bool SniffYamlList(const FileHead& head) {
  const bool named = head.file_name.ends_with(".yaml") || head.file_name.ends_with(".yml");
  std::string_view rest = head.bytes;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  while (!rest.empty()) {
    const size_t end = std::min(rest.size(), rest.find('\n'));
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (IsMarker(line, "---")) line.remove_prefix(std::min<size_t>(4, line.size()));
    if (IsBlankOrComment(line) || line.starts_with('%')) continue;
    // Binary data is not YAML, whatever the file's name is.
    return BeginsCall(line) || line.starts_with("[{") || line == "[]" ||
           (named &&
            std::none_of(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' ' && c != '\t' && c != '\r'; }));
  }
  return named;
}

absl::StatusOr<std::unique_ptr<CallSource>> OpenYamlList(std::unique_ptr<InputFile> file) {
  return std::make_unique<YamlList>(std::move(file));
}

}  // namespace

const Importer kYamlImporter = {"yaml", "calls in YAML (api, args, kwargs)", SniffYamlList, OpenYamlList};

}  // namespace torchtrace
