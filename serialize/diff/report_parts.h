// What the reports of both kinds of diff have in common.

#ifndef TORCHTRACE_SERIALIZE_DIFF_REPORT_PARTS_H_
#define TORCHTRACE_SERIALIZE_DIFF_REPORT_PARTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/diff/common_configs.h"

namespace torchtrace {

enum class DiffFormat : uint8_t { kText, kJson, kMarkdown };
// `text`, `json` or `markdown`; InvalidArgument with the choices.
absl::StatusOr<DiffFormat> ParseDiffFormat(std::string_view text);

struct DiffOptions {
  DiffScope scope;
  bool compare_counts = true;
  std::vector<std::string> ignored;  // what the scope forgets, and "counts", as the report names it
  std::string a_name = "A";          // of the traces
  std::string b_name = "B";
  DiffFormat format = DiffFormat::kText;
  bool color = false;    // ANSI colours; text only
  bool summary = false;  // numbers only
  uint64_t top = 0;      // so many APIs and configs, the most called first; 0: all
};

// `text` as code in a cell of a Markdown table, whatever it holds.
std::string MarkdownCode(std::string_view text);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_REPORT_PARTS_H_
