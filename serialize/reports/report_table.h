// A report said once and written in the format that was asked for: for people as text or Markdown, for programs as
// JSON or CSV.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_REPORT_TABLE_H_
#define TORCHTRACE_SERIALIZE_REPORTS_REPORT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "serialize/base/text.h"

namespace torchtrace {

enum class StatsFormat : uint8_t;

// The terminal that a report is for.
struct ReportScreen {
  size_t width = 0;   // characters of a line; 0: any
  size_t lines = 45;  // where there is no terminal, what fits on most
};

// What each format calls a column. One for which it has no name isn't there.
struct ReportColumn {
  std::string title;  // of text and Markdown
  std::string json = {};
  std::string csv = {};
  TextTable::Align align = TextTable::kRight;
  // Neighbours with the same object are a group, called like that. In JSON it is an object of the row's list `traces`;
  // in CSV its name stands before theirs. Where its first cell is 0, people see `-` in all of them.
  const std::string* group = nullptr;
  bool clips = false;  // its cells, on a terminal that is too narrow (ClipText)
};

// What programs read, and people too where there is no text of their own. Null is empty but in JSON.
struct ReportCell {
  ReportCell() = default;
  template <typename Value>
  explicit(false) ReportCell(Value of_programs) : value(std::move(of_programs)) {}  // so that a row is a list of values
  ReportCell(nlohmann::ordered_json of_programs, std::string of_people)
      : value(std::move(of_programs)), text(std::move(of_people)) {}

  nlohmann::ordered_json value;
  std::optional<std::string> text;
};
ReportCell ApiCell(std::string_view api);               // as FormatApi has it
ReportCell TimeCell(int64_t ns);                        // `1.23 us`
ReportCell PercentCell(uint64_t part, uint64_t whole);  // `12.34%`; programs get a number with four decimals

// How many rows each of some tables has on a screen, with lines around them; what people see who don't say.
uint64_t RowsOnAScreen(size_t tables, size_t lines);

// Each call writes what the format shows of it.
class ReportWriter {
 public:
  // Text is for that terminal; `rows_fit`: of rows that take several of its lines there are as many fewer.
  ReportWriter(StatsFormat format, std::ostream* out, const ReportScreen& screen = {}, bool rows_fit = false)
      : format_(format), out_(out), width_(screen.width), rows_fit_(rows_fit) {}

  // For people, before the tables.
  void AddLine(std::string_view line);
  // Of the object that JSON is.
  void AddMembers(const nlohmann::ordered_json& members);

  // `list`: the member of JSON; tables that follow one another with the same one are one list. CSV is one table:
  // every table with columns in it has the same ones.
  void BeginTable(const std::string& list, std::vector<ReportColumn> columns);
  // A cell for each column.
  void AddRow(const std::vector<ReportCell>& cells);
  // `more`: how many rows were left out.
  void EndTable(uint64_t more = 0);

  // Aborted, naming `what` it is, when the stream fails.
  absl::Status Finish(const char* what);

 private:
  const std::string& NameOf(const ReportColumn& column) const;
  void BeginMember(const std::string& name);
  std::vector<size_t> Widths() const;  // of columns, in characters
  // Drops the groups beyond the terminal's edge, but for the first. Returns how many.
  size_t FitGroups();
  // Clips the rows for the terminal. Returns how many were dropped.
  uint64_t FitRows();

  const StatsFormat format_;
  std::ostream* const out_;
  const size_t width_;
  const bool rows_fit_;
  std::vector<ReportColumn> columns_;  // of the table begun last
  // The same for people, if they see any.
  std::vector<TextTable::Column> shown_;
  std::vector<bool> clips_;  // by column
  std::vector<std::vector<std::string>> rows_;
  bool has_csv_header_ = false;
  const char* before_member_ = "{";
  std::string list_;           // the open one of JSON
  const char* list_end_ = "";  // what closes it
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPORT_TABLE_H_
