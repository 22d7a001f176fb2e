#include "serialize/report/sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/report/page/report_page.h"

namespace torchtrace {
namespace {

constexpr size_t kMostOfAFile = size_t{1} << 20;
constexpr size_t kMostOfAll = size_t{5} << 20;

// Nothing: no regular file, too large, or written after the program began: its lines may be others.
std::optional<std::string> TextOf(const std::string& path, int64_t started_ns) {
  // A zero byte would end the name for the system.
  if (path.find('\0') != std::string::npos || !absl::EndsWith(path, ".py")) return std::nullopt;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return std::nullopt;
  struct stat facts = {};
  std::optional<std::string> text;
  if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size <= static_cast<off_t>(kMostOfAFile)) {
    const int64_t written_ns = int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
    if (written_ns <= started_ns) {
      text.emplace(kMostOfAFile, '\0');
      size_t bytes = 0;
      ssize_t got = 0;
      while (bytes < text->size() && (got = read(file, text->data() + bytes, text->size() - bytes)) > 0) {
        bytes += static_cast<size_t>(got);
      }
      text->resize(bytes);
    }
  }
  close(file);
  return text;
}

// With line breaks, whatever its length.
std::string WholePageText(std::string_view text) {
  std::string page;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    absl::StrAppend(&page, PageText(text.substr(0, end)), end == std::string_view::npos ? "" : "\n");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return page;
}

}  // namespace

SourceTexts ReadSources(const std::vector<StatsTrace>& traces) {
  SourceTexts sources;
  std::map<std::string, std::string> seen;  // paths by name
  size_t bytes = 0;
  for (const StatsTrace& each : traces) {
    const StackText stack_text(*each.trace);
    const StackTable& stacks = each.trace->stacks();
    std::string folder;
    int64_t started_ns = 0;
    if (!each.trace->processes().empty()) {
      const ProcessMetadata& known = each.trace->processes()[0].known;
      folder = known.cwd.value_or("");
      started_ns = known.origin_realtime_ns.value_or(0);
    }
    std::set<std::string_view> files;
    for (LineId line = 0; line < stacks.line_count(); ++line) {
      files.insert(stacks.code(stacks.line(line).code).file);
    }
    for (const std::string_view file : files) {
      const std::string name = PageText(stack_text.File(file));
      const std::string path = file.starts_with("/") ? std::string(file) : absl::StrCat(folder, "/", std::string(file));
      const auto [known, fresh] = seen.try_emplace(name, path);
      if (!fresh) {
        sources.left_out += known->second != path;  // lines of both are shown by one text
        continue;
      }
      const std::optional<std::string> text = TextOf(path, started_ns);
      if (!text.has_value() || bytes + text->size() > kMostOfAll) {
        ++sources.left_out;
        continue;
      }
      bytes += text->size();
      sources.files.push_back(name);
      sources.texts.push_back(WholePageText(*text));
    }
  }
  return sources;
}

}  // namespace torchtrace
