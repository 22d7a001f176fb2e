// The formats that the tables of `torchtrace stats` are written in.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_STATS_FORMAT_H_
#define TORCHTRACE_SERIALIZE_REPORTS_STATS_FORMAT_H_

#include <cstdint>
#include <ostream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace torchtrace {

enum class StatsFormat : uint8_t { kText, kJson, kCsv, kMarkdown };

// Has a Report written by its WriteText (text and Markdown), WriteJson or WriteCsv to `out`, which it
// holds. Aborted, naming `what` it is, when `out` fails.
template <typename Report>
absl::Status WriteInFormat(StatsFormat format, const char* what, Report* report, std::ostream* out) {
  switch (format) {
    case StatsFormat::kText:
    case StatsFormat::kMarkdown:
      report->WriteText();
      break;
    case StatsFormat::kJson:
      report->WriteJson();
      break;
    case StatsFormat::kCsv:
      report->WriteCsv();
      break;
  }
  out->flush();
  return out->good() ? absl::OkStatus() : absl::AbortedError(absl::StrCat("cannot write ", what));
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_STATS_FORMAT_H_
