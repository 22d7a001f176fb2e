// A config's row in a table, CSV or Parquet.

#include <string_view>
#include <utility>

#include "serialize/export/exporter.h"
#include "serialize/forms/text_form.h"
#include "serialize/model/placeholder.h"
#include "serialize/model/readable_config.h"

namespace torchtrace {
namespace {

class TableSink final : public ConfigSink {
 public:
  explicit TableSink(std::unique_ptr<TableWriter> table) : table_(std::move(table)) {}

  absl::Status Add(const ConfigRow& row) override {
    const Config config = ReadableConfig(row.identity);
    return table_->Add({config.level == kAnyLevel ? kNullCell : config.level, table_->Intern(FormatApi(config.api)),
                        table_->Intern(FormatConfig(config)), static_cast<int64_t>(row.calls),
                        NumberOrNull(row.time_ns), TextOrNull(row.trace), TextOrNull(row.host), NumberOrNull(row.pid),
                        NumberOrNull(row.rank)});
  }

  absl::Status Finish() override { return table_->Finish(); }

 private:
  static int64_t NumberOrNull(int64_t number) { return number < 0 ? kNullCell : number; }
  int64_t TextOrNull(std::string_view text) { return text.empty() ? kNullCell : table_->Intern(text); }

  const std::unique_ptr<TableWriter> table_;
};

}  // namespace

std::vector<Column> ConfigColumns() {
  return {{"level", ColumnType::kInt}, {"api", ColumnType::kText},        {"config", ColumnType::kText},
          {"calls", ColumnType::kInt}, {"time_ns", ColumnType::kCounter}, {"trace", ColumnType::kText},
          {"host", ColumnType::kText}, {"pid", ColumnType::kInt},         {"rank", ColumnType::kInt}};
}

std::unique_ptr<ConfigSink> MakeTableSink(std::unique_ptr<TableWriter> table) {
  return std::make_unique<TableSink>(std::move(table));
}

}  // namespace torchtrace
