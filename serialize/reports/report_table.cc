#include "serialize/reports/report_table.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialize/forms/forms.h"
#include "serialize/reports/reports.h"

namespace torchtrace {
namespace {

using nlohmann::ordered_json;

std::string ValueText(const ordered_json& value, const char* between_items) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  return absl::StrJoin(value, between_items, [](std::string* out, const ordered_json& item) { *out += item.dump(); });
}

}  // namespace

ReportCell ApiCell(std::string_view api) { return {std::string(api), FormatApi(api)}; }

ReportCell TimeCell(int64_t ns) { return {ns, FormatDuration(ns)}; }

ReportCell PercentCell(uint64_t part, uint64_t whole) {
  const double ratio = whole == 0 ? 0 : 1e6 * static_cast<double>(part) / static_cast<double>(whole);
  return {std::round(ratio) / 1e4, FormatPercent(part, whole)};
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
  for (const ReportColumn& column : columns_) {
    if (NameOf(column).empty()) continue;
    named.push_back({NameOf(column), column.align, column.group == nullptr ? "" : *column.group});
  }
  if (named.empty()) return;
  if (format_ != StatsFormat::kCsv) {
    text_.emplace(std::move(named));
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
  } else if (text_.has_value()) {
    text_->AddRow(std::move(texts));
  } else if (!texts.empty()) {
    *out_ << absl::StrJoin(texts, ",") << "\n";
  }
}

void ReportWriter::EndTable(uint64_t more) {
  if (!text_.has_value()) return;
  const bool markdown = format_ == StatsFormat::kMarkdown;
  *out_ << "\n" << (markdown ? text_->FormatMarkdown() : text_->Format());
  if (more > 0) *out_ << (markdown ? "\n" : "") << "... and " << more << " more (--top 0 shows all)\n";
  text_.reset();
}

absl::Status ReportWriter::Finish(const char* what) {
  if (format_ == StatsFormat::kJson) *out_ << list_end_ << "\n}\n";
  out_->flush();
  return out_->good() ? absl::OkStatus() : absl::AbortedError(absl::StrCat("cannot write ", what));
}

}  // namespace torchtrace
