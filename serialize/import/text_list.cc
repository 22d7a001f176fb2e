#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Blank lines and comments, which lists made by hand may contain.
bool IsSkipped(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line.substr(first).starts_with("# ") || line.substr(first) == "#";
}

// api_tracer cuts lines at 1,024 characters, anywhere, and marks them like this.
bool IsCutByApiTracer(std::string_view line) { return line.size() >= 1000 && line.ends_with("...)"); }

class TextList : public CallSource {
 public:
  explicit TextList(std::unique_ptr<InputFile> file)
      : file_(std::move(file)), configs_(file_->file_name().starts_with("api_configs")) {}

  std::string format() const override { return configs_ ? "configurations as text" : "calls as text"; }

  absl::Status Scan(const Visitor& visit) override {
    LineReader lines(file_.get());
    IdentityCache cache;
    cut_ = 0;
    bool begun = false;
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines.Next(&line);
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      if (!std::exchange(begun, true) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
      if (IsSkipped(line)) continue;
      const ParsedCall* call = cache.Find(line);
      if (call == nullptr) {
        const absl::StatusOr<Config> config = ParseConfigText(line);
        if (!config.ok() && IsCutByApiTracer(line)) {
          ++cut_;
          continue;
        }
        if (!config.ok()) {
          return absl::InvalidArgumentError(
              absl::StrCat(file_->name(), " line ", lines.number(), ", ", std::string(config.status().message())));
        }
        call = &cache.Add(line, {EncodeConfig(*config), "", 1});
      }
      ImportedCall imported;
      imported.identity = call->identity;
      if (absl::Status s = visit(imported); !s.ok()) return s;
    }
  }

  const std::vector<ImportedProcess>& processes() const override { return processes_; }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (configs_) {
      notes.push_back(
          absl::StrCat(file_->name(), " lists each configuration once: how often it was called isn't known"));
    } else {
      notes.push_back(absl::StrCat(
          file_->name(), " is text without times, outcomes, threads and nesting; levels are guessed from names"));
    }
    if (cut_ > 0) {
      notes.push_back(absl::StrCat(cut_, " lines that api_tracer cut at 1,024 characters were left out"));
    }
    return notes;
  }

 private:
  const std::unique_ptr<InputFile> file_;
  const bool configs_;  // each configuration once, not each call
  const std::vector<ImportedProcess> processes_{1};
  uint64_t cut_ = 0;
};

// The first line that isn't blank is a call, or begins like one.
bool SniffTextList(const FileHead& head) {
  std::string_view rest = head.bytes;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  while (!rest.empty()) {
    const size_t end = std::min(rest.size(), rest.find('\n'));
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool whole = end < rest.size() || head.bytes.size() < kFileHeadBytes;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (IsSkipped(line)) continue;
    if (whole && ParseConfigText(line).ok()) return true;
    // A list with an error in its first line is still recognized by its name, and a long line by its beginning.
    line.remove_prefix(line.find_first_not_of(" \t"));
    const size_t name = line.find_first_of(" \t()[]{}\"',=");
    const bool named = name != 0 && name != std::string_view::npos && line[name] == '(' &&
                       std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(name),
                                   [](char c) { return c > ' ' && c < 0x7f; });
    return named &&
           (!whole || head.file_name.ends_with(".txt") || line.substr(0, name).find('.') != std::string_view::npos);
  }
  return false;
}

absl::StatusOr<std::unique_ptr<CallSource>> OpenTextList(std::unique_ptr<InputFile> file) {
  return std::make_unique<TextList>(std::move(file));
}

}  // namespace

const Importer kTextImporter = {"text", "a list of calls in text", SniffTextList, OpenTextList};

}  // namespace torchtrace
