#include "serialize/reports/report_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "serialize/base/clip_text.h"
#include "serialize/forms/forms.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kLeastRows = 3;
constexpr size_t kLeastClipped = 24;  // characters of a clipped column, to make room for more groups

std::string ValueText(const ordered_json& value, const char* between_items) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  return absl::StrJoin(value, between_items, [](std::string* out, const ordered_json& item) { *out += item.dump(); });
}

}  // namespace

ReportCell ApiCell(std::string_view api) { return {std::string(api), FormatApi(api)}; }

ReportCell TimeCell(int64_t ns) { return {ns, FormatDuration(ns)}; }

ReportCell NumberCell(double number) {
  return {std::isfinite(number) ? nlohmann::ordered_json(number) : nlohmann::ordered_json(nullptr),
          FormatNumber(number)};
}

ReportCell PercentCell(uint64_t part, uint64_t whole) {
  const double ratio = whole == 0 ? 0 : 1e6 * static_cast<double>(part) / static_cast<double>(whole);
  return {std::round(ratio) / 1e4, FormatPercent(part, whole)};
}

uint64_t RowsOnAScreen(size_t tables, size_t lines) {
  constexpr uint64_t kAroundOne = 4, kAroundEach = 5;
  const uint64_t each = tables < 2 ? lines - std::min<uint64_t>(lines, kAroundOne)
                                   : (lines - 1) / tables - std::min<uint64_t>((lines - 1) / tables, kAroundEach);
  return std::min(kDefaultRows, std::max(kLeastRows, each));
}

const std::string& ReportWriter::NameOf(const ReportColumn& column) const {
  return format_ == StatsFormat::kJson ? column.json : format_ == StatsFormat::kCsv ? column.csv : column.title;
}

void ReportWriter::AddLine(std::string_view line) {
  if (format_ == StatsFormat::kText || format_ == StatsFormat::kMarkdown) *out_ << line << "\n";
}

void ReportWriter::AddMembers(const ordered_json& members) {
  if (format_ != StatsFormat::kJson) return;
  for (const auto& [name, value] : members.items()) {
    BeginMember(name);
    *out_ << DumpJson(value);
  }
}

void ReportWriter::BeginMember(const std::string& name) {
  *out_ << list_end_ << before_member_ << "\n  " << DumpJson(name) << ": ";
  before_member_ = ",";
  list_.clear();
  list_end_ = "";
}

void ReportWriter::BeginTable(const std::string& list, std::vector<ReportColumn> columns) {
  columns_ = std::move(columns);
  if (format_ == StatsFormat::kJson) {
    if (list == list_) return;
    BeginMember(list);
    *out_ << "[";
    list_ = list;
    list_end_ = "]";
    return;
  }
  std::vector<TextTable::Column> named;
  clips_.clear();
  leads_.clear();
  rows_.clear();
  for (const ReportColumn& column : columns_) {
    if (NameOf(column).empty()) continue;
    named.push_back({NameOf(column), column.align, column.group == nullptr ? "" : *column.group});
    clips_.push_back(column.clips);
    leads_.push_back(column.leads);
  }
  if (named.empty()) return;
  if (format_ != StatsFormat::kCsv) {
    shown_ = std::move(named);
  } else if (!std::exchange(has_csv_header_, true)) {
    *out_ << absl::StrJoin(named, ",", [](std::string* out, const TextTable::Column& column) {
      *out += CsvCell(absl::StrCat(column.group, column.group.empty() ? "" : " ", column.title));
    }) << "\n";
  }
}

void ReportWriter::AddRow(const std::vector<ReportCell>& cells) {
  std::vector<std::string> texts;
  ordered_json json = ordered_json::object();
  const std::string* group = nullptr;
  bool blank = false;
  for (size_t i = 0; i < cells.size(); ++i) {
    const auto& [value, text] = cells[i];
    if (std::exchange(group, columns_[i].group) != columns_[i].group) {
      blank = group != nullptr && value == 0;
      if (group != nullptr) json["traces"].push_back(ordered_json::object());
    }
    const std::string& name = NameOf(columns_[i]);
    if (name.empty()) continue;
    if (format_ == StatsFormat::kJson) {
      (group == nullptr ? json : json["traces"].back())[name] = value;
    } else if (format_ == StatsFormat::kCsv) {
      texts.push_back(CsvCell(ValueText(value, " ")));
    } else {
      texts.push_back(blank ? "-" : text.has_value() ? *text : ValueText(value, ","));
    }
  }
  if (format_ == StatsFormat::kJson) {
    *out_ << (*list_end_ == ']' ? "\n    " : ",\n    ") << DumpJson(json);
    list_end_ = "\n  ]";
  } else if (!shown_.empty()) {
    for (std::string& text : texts) text = PlainLine(text);
    rows_.push_back(std::move(texts));
  } else if (!texts.empty()) {
    *out_ << absl::StrJoin(texts, ",") << "\n";
  }
}

std::vector<size_t> ReportWriter::Widths() const {
  std::vector<size_t> widths;
  for (const TextTable::Column& column : shown_) widths.push_back(CountCharacters(column.title));
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], CountCharacters(row[i]));
  }
  return widths;
}

std::vector<bool> ReportWriter::FittingColumns(size_t* dropped) const {
  const std::vector<size_t> widths = Widths();
  const auto of_group = [this](size_t i) { return std::string_view(shown_[i].group); };
  size_t width = 0;
  for (size_t i = 0; i < shown_.size(); ++i) {
    if (of_group(i).empty()) width += 2 + (clips_[i] ? std::min(widths[i], kLeastClipped) : widths[i]);
  }
  std::vector<bool> keeps(shown_.size(), true);
  size_t groups = 0;
  *dropped = 0;
  for (size_t i = 0, end = 0; i < shown_.size(); i = end) {
    size_t group_width = 0;
    for (end = i; end < shown_.size() && of_group(end) == of_group(i); ++end) group_width += 2 + widths[end];
    if (of_group(i).empty()) continue;
    width += std::max(group_width, 2 + CountCharacters(of_group(i)));
    // The very first column has no space before it.
    if (++groups == 1 || width <= width_ + 2) continue;
    std::fill(keeps.begin() + static_cast<ptrdiff_t>(i), keeps.begin() + static_cast<ptrdiff_t>(end), false);
    ++*dropped;
  }
  return keeps;
}

void ReportWriter::KeepColumns(const std::vector<bool>& keeps) {
  const auto keep = [&keeps](auto* cells) {
    size_t kept = 0;
    for (size_t i = 0; i < keeps.size(); ++i) {
      if (keeps[i] && kept++ != i) (*cells)[kept - 1] = std::move((*cells)[i]);
    }
    cells->resize(kept);
  };
  keep(&shown_);
  keep(&clips_);
  for (std::vector<std::string>& row : rows_) keep(&row);
}

uint64_t ReportWriter::FitRows() {
  const std::vector<size_t> widths = Widths();
  size_t width = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  for (size_t i = 0; i < shown_.size(); ++i) {
    if (!clips_[i]) continue;
    const size_t beside = width - widths[i];
    size_t widest = CountCharacters(shown_[i].title);
    for (std::vector<std::string>& row : rows_) {
      row[i] = ClipText(row[i], width_, beside);
      widest = std::max(widest, CountCharacters(row[i]));
    }
    width = beside + widest;
  }
  const size_t lines = (width + width_ - 1) / width_;  // of a row
  const size_t kept = std::max<size_t>(kLeastRows, rows_.size() / std::max<size_t>(lines, 1));
  if (!rows_fit_ || kept >= rows_.size()) return 0;
  const size_t dropped = rows_.size() - kept;
  rows_.resize(kept);
  return dropped;
}

uint64_t ReportWriter::WriteTransposed() {
  const std::vector<size_t> widths = Widths();
  std::vector<size_t> leading;
  size_t label = 0, names_width = 0;
  for (size_t i = 0; i < shown_.size(); ++i) {
    if (clips_[i]) label = i;
    if (leads_[i]) leading.push_back(i);
  }
  std::vector<std::string> names;
  for (const size_t i : leading) {
    names.push_back(ClipText(PlainLine(shown_[i].group), width_, width_ * 2 / 3));
    names_width = std::max(names_width, CountCharacters(names.back()));
  }
  const std::string& title = shown_[leading.front()].title;
  names_width = std::max(names_width, CountCharacters(title));
  const auto head = [](size_t row) { return absl::StrCat("[", row + 1, "]"); };
  size_t end = 0;
  while (end < rows_.size() && (end == 0 || !rows_fit_)) {
    const size_t begin = end;
    std::vector<TextTable::Column> columns = {{title, TextTable::kLeft}};
    for (size_t width = names_width; end < rows_.size(); ++end) {
      size_t cell = head(end).size();
      for (const size_t i : leading) cell = std::max(cell, CountCharacters(rows_[end][i]));
      width += 2 + cell;
      if (width > width_ && end > begin) break;
      columns.push_back({head(end)});
    }
    TextTable table(std::move(columns));
    for (size_t group = 0; group < leading.size(); ++group) {
      std::vector<std::string> cells = {names[group]};
      for (size_t row = begin; row < end; ++row) cells.push_back(rows_[row][leading[group]]);
      table.AddRow(std::move(cells));
    }
    *out_ << "\n" << table.Format();
  }
  *out_ << "\n";
  size_t used = 0;  // characters of the line
  for (size_t row = 0; row < end; ++row) {
    const std::string entry = ClipText(absl::StrCat(head(row), " ", rows_[row][label]), width_, 0);
    const size_t width = CountCharacters(entry);
    const bool fits = used > 0 && used + 2 + width <= width_;
    *out_ << (used == 0 ? "" : fits ? "  " : "\n") << entry;
    used = fits ? used + 2 + width : width;
  }
  if (used > 0) *out_ << "\n";
  *out_ << "... of each trace only its " << title << " (`| cat` shows all)\n";
  return rows_.size() - end;
}

void ReportWriter::EndTable(uint64_t more) {
  if (shown_.empty()) return;
  const bool markdown = format_ == StatsFormat::kMarkdown;
  size_t more_groups = 0;
  if (!markdown && width_ > 0) {
    const std::vector<bool> keeps = FittingColumns(&more_groups);
    if (more_groups > 0 && std::find(leads_.begin(), leads_.end(), true) != leads_.end()) {
      more += WriteTransposed();
      shown_.clear();
      if (more > 0) *out_ << "... and " << more << " more rows (--top 0 shows all)\n";
      return;
    }
    if (more_groups > 0) KeepColumns(keeps);
    more += FitRows();
  }
  TextTable table(std::exchange(shown_, {}));
  for (std::vector<std::string>& row : rows_) table.AddRow(std::move(row));
  *out_ << "\n" << (markdown ? table.FormatMarkdown() : table.Format());
  if (more > 0) *out_ << (markdown ? "\n" : "") << "... and " << more << " more (--top 0 shows all)\n";
  if (more_groups > 0) *out_ << "... and " << more_groups << " more to the right (`| cat` shows all)\n";
}

absl::Status ReportWriter::Finish(const char* what) {
  if (format_ == StatsFormat::kJson) *out_ << list_end_ << "\n}\n";
  out_->flush();
  return out_->good() ? absl::OkStatus() : absl::AbortedError(absl::StrCat("cannot write ", what));
}

}  // namespace torchtrace
