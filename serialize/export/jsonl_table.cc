// JSON Lines: an object per row.

#include "nlohmann/json.hpp"
#include "serialize/export/line_table.h"
#include "serialize/export/table_writer.h"
#include "serialize/forms/json_form.h"

namespace torchtrace {
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
