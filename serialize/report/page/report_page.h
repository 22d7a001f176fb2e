// Writes report.html with data: a JSON head and blocks of columns, as docs/internals/REPORT_DATA.md describes them.

#ifndef TORCHTRACE_SERIALIZE_REPORT_PAGE_REPORT_PAGE_H_
#define TORCHTRACE_SERIALIZE_REPORT_PAGE_REPORT_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "nlohmann/json.hpp"

namespace torchtrace {

// The texts of traces are anybody's: without invalid UTF-8 and lone surrogates, and at most 8 KiB.
std::string PageText(std::string_view text);

// The columns of a block, in the order in which they are added.
class PageBlock {
 public:
  void AddTexts(const std::string& name, const std::vector<std::string>& texts);
  // Not below 0; NaN is "not known". They get the smallest type that holds them.
  void AddNumbers(const std::string& name, const std::vector<double>& numbers);
  // Ascending for most of the rows.
  void AddDeltas(const std::string& name, const std::vector<uint32_t>& numbers);

 private:
  friend class ReportPage;

  void AddColumn(const std::string& name, const char* type, size_t count);

  nlohmann::ordered_json columns_ = nlohmann::ordered_json::array();
  std::string bytes_;
  // The column before, which self times are like.
  std::string last_times_name_, last_times_;
  const char* last_times_type_ = "";
};

class ReportPage {
 public:
  // Has format, version and the version of torchtrace.
  explicit ReportPage(std::string_view version);

  nlohmann::ordered_json& head() { return head_; }

  // Replaces the block of that name. Returns how many bytes it takes in the page.
  size_t SetBlock(const std::string& name, const PageBlock& block);
  // The number of a text in the block `labels`, which call trees and the timeline share. `level` -1: of none.
  uint32_t Label(std::string_view text, int level);

  // Aborted if the stream fails.
  absl::Status Write(std::ostream* out);

 private:
  nlohmann::ordered_json head_;
  std::map<std::string, std::string> blocks_;  // base64
  absl::flat_hash_map<std::pair<std::string, int>, uint32_t> label_numbers_;
  std::vector<std::string> labels_;
  std::vector<double> label_levels_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORT_PAGE_REPORT_PAGE_H_
