// Tables as text. CSV: comma-separated values (text.h) with line feeds. JSON Lines: an object per row.

#include "nlohmann/json.hpp"
#include "serialize/base/text.h"
#include "serialize/export/exporter.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/forms.h"

namespace torchtrace {
namespace {

class CsvTable final : public LineTable {
 public:
  CsvTable(std::vector<Column> columns, std::ostream* out) : LineTable(std::move(columns), out) {
    const char* separator = "";
    for (const Column& column : this->columns()) {
      buffer_.append(separator).append(column.name);
      separator = ",";
    }
    buffer_.push_back('\n');
  }

 private:
  void AppendRow(const std::vector<int64_t>& row, std::string* out) override {
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out->push_back(',');
      if (row[i] == kNullCell) continue;
      if (HoldsTexts(columns()[i].type)) {
        AppendText(row[i], out);
      } else {
        AppendInt(row[i], out);
      }
    }
  }

  // An empty text is quoted: without quotes it would mean unknown.
  std::string Spell(std::string_view text) const override { return text.empty() ? "\"\"" : CsvCell(text); }
};

}  // namespace

std::unique_ptr<TableWriter> MakeCsvTable(std::vector<Column> columns, std::ostream* out) {
  return std::make_unique<CsvTable>(std::move(columns), out);
}

extern const Exporter kCsvExporter;
const Exporter kCsvExporter = {
    .name = "csv",
    .help = "comma separated values, with a header",
    .suffixes = {"csv"},
    .provenance = Provenance::kAlways,
    .write = WritesTables{[](std::vector<Column> columns, std::ostream* out,
                             const ExportOptions&) -> absl::StatusOr<std::unique_ptr<TableWriter>> {
      return MakeCsvTable(std::move(columns), out);
    }},
};

namespace {

class JsonlTable final : public LineTable {
 public:
  JsonlTable(std::vector<Column> columns, std::ostream* out) : LineTable(std::move(columns), out) {
    for (const Column& column : this->columns()) keys_.push_back(Spell(column.name) + ":");
  }

 private:
  void AppendRow(const std::vector<int64_t>& row, std::string* out) override {
    char separator = '{';
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] == kNullCell) continue;
      out->push_back(separator);
      separator = ',';
      out->append(keys_[i]);
      if (columns()[i].type == ColumnType::kText) {
        AppendText(row[i], out);
      } else if (columns()[i].type == ColumnType::kJson) {
        out->append(text(row[i]));
      } else {
        AppendInt(row[i], out);
      }
    }
    out->append(separator == '{' ? "{}" : "}");
  }

  std::string Spell(std::string_view text) const override {
    return DumpJson(nlohmann::ordered_json(std::string(text)));
  }

  std::vector<std::string> keys_;
};

}  // namespace

std::unique_ptr<TableWriter> MakeJsonlTable(std::vector<Column> columns, std::ostream* out) {
  return std::make_unique<JsonlTable>(std::move(columns), out);
}

}  // namespace torchtrace
