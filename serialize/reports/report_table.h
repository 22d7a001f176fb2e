// Writes a report in any of the formats: for people as text or Markdown, for programs as JSON or CSV.

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
  size_t width = 0;   // characters of a line; 0: unlimited
  size_t lines = 45;  // the default, without a terminal, fits on most
};

// The names of a column in each format. A format for which the name is empty leaves the column out.
struct ReportColumn {
  std::string title;  // of text and Markdown
  std::string json = {};
  std::string csv = {};
  TextTable::Align align = TextTable::kRight;
  // Neighbouring columns with the same pointer form a group of that name. JSON writes it as an object of the row's list
  // `traces`, CSV puts its name before theirs. If its first cell is 0, text and Markdown show `-` in all of them.
  const std::string* group = nullptr;
  bool clips = false;  // clips its cells on a terminal that is too narrow (ClipText)
  bool leads = false;  // of its group: the one that a terminal shows which is too narrow for all groups
};

// A value for programs, and a text for people if it differs. Null is an empty cell, except in JSON.
struct ReportCell {
  ReportCell() = default;
  template <typename Value>
  explicit(false) ReportCell(Value of_programs) : value(std::move(of_programs)) {}  // so that a row is a list of values
  ReportCell(nlohmann::ordered_json of_programs, std::string of_people)
      : value(std::move(of_programs)), text(std::move(of_people)) {}

  nlohmann::ordered_json value;
  std::optional<std::string> text;
};
ReportCell ApiCell(std::string_view api);  // text: FormatApi(api)
ReportCell TimeCell(int64_t ns);           // `1.23 us`
// Five digits: `0.58333`, `1.2e+06`; programs get all of them, and null for what JSON can't represent.
ReportCell NumberCell(double number);
ReportCell PercentCell(uint64_t part, uint64_t whole);  // `12.34%`; programs get a number with four decimals

// The default number of rows of each table for people: so that all tables, with their headings, fit on a screen.
uint64_t RowsOnAScreen(size_t tables, size_t lines);

// Takes all parts of a report; each call writes only what the format has.
class ReportWriter {
 public:
  // Text is laid out for `screen`. `rows_fit`: if rows wrap on it, shows fewer rows.
  ReportWriter(StatsFormat format, std::ostream* out, const ReportScreen& screen = {}, bool rows_fit = false)
      : format_(format), out_(out), width_(screen.width), rows_fit_(rows_fit) {}

  // For people, before the tables.
  void AddLine(std::string_view line);
  // Members of the JSON object.
  void AddMembers(const nlohmann::ordered_json& members);

  // `list`: the JSON member for the rows; consecutive tables with the same name share a list. CSV is a single table:
  // every table that has CSV columns must have the same ones.
  void BeginTable(const std::string& list, std::vector<ReportColumn> columns);
  // One cell per column.
  void AddRow(const std::vector<ReportCell>& cells);
  // `more`: how many rows were left out.
  void EndTable(uint64_t more = 0);

  // Aborted if the stream failed; the message names the report as `what`.
  absl::Status Finish(const char* what);

 private:
  const std::string& NameOf(const ReportColumn& column) const;
  void BeginMember(const std::string& name);
  std::vector<size_t> Widths() const;  // of columns, in characters
  // Which columns to keep: not those of groups beyond the terminal's edge, except the first. `dropped`: how many
  // groups.
  std::vector<bool> FittingColumns(size_t* dropped) const;
  void KeepColumns(const std::vector<bool>& keeps);
  // Clips the rows for the terminal. Returns how many were dropped.
  uint64_t FitRows();
  // A line for each group instead, with its leading column's cell of each row, and a legend of the rows. Returns how
  // many rows were dropped.
  uint64_t WriteTransposed();

  const StatsFormat format_;
  std::ostream* const out_;
  const size_t width_;
  const bool rows_fit_;
  std::vector<ReportColumn> columns_;  // of the current table
  // The same for people.
  std::vector<TextTable::Column> shown_;
  std::vector<bool> clips_, leads_;  // by column
  std::vector<std::vector<std::string>> rows_;
  bool has_csv_header_ = false;
  const char* before_member_ = "{";
  std::string list_;           // the open list of JSON
  const char* list_end_ = "";  // what closes it
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_REPORT_TABLE_H_
