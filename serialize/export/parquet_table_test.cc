// The C++ half of the Parquet export, with a C++ function instead of Python's that pulls the streams.

#include "serialize/export/parquet_table.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/export/arrow_c_data.h"
#include "serialize/export/exporter.h"

namespace torchtrace {
namespace {

// The pulled data: the schema, a line per row, "end".
std::vector<std::string>* g_pulled = nullptr;

std::string Cell(const ArrowArray& column, int64_t row) {
  const auto* const valid = static_cast<const uint8_t*>(column.buffers[0]);
  if (valid != nullptr && (valid[row / 8] >> row % 8 & 1) == 0) return "null";
  if (column.dictionary == nullptr) return std::to_string(static_cast<const int64_t*>(column.buffers[1])[row]);
  const int32_t index = static_cast<const int32_t*>(column.buffers[1])[row];
  const auto* const offsets = static_cast<const int32_t*>(column.dictionary->buffers[1]);
  const auto* const bytes = static_cast<const char*>(column.dictionary->buffers[2]);
  return std::string(bytes + offsets[index], bytes + offsets[index + 1]);
}

int PullRows(ArrowArrayStream* rows, const char* counters) {
  if (rows == nullptr) {
    torchtrace_export_write("the footer", 10);
    g_pulled->push_back("end");
    return 0;
  }
  ArrowSchema schema;
  EXPECT_EQ(rows->get_schema(rows, &schema), 0);
  std::string line = std::string(schema.format) + " " + counters + ":";
  for (int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& field = *schema.children[i];
    line += std::string(" ") + field.name + " " + field.format + (field.dictionary == nullptr ? "" : "u");
  }
  schema.release(&schema);
  EXPECT_EQ(schema.release, nullptr);
  g_pulled->push_back(line);
  for (;;) {
    ArrowArray batch;
    EXPECT_EQ(rows->get_next(rows, &batch), 0);
    if (batch.release == nullptr) break;
    for (int64_t row = 0; row < batch.length; ++row) {
      std::string cells;
      for (int64_t i = 0; i < batch.n_children; ++i) cells += Cell(*batch.children[i], row) + ";";
      g_pulled->push_back(cells);
    }
    batch.release(&batch);
  }
  rows->release(rows);
  return 0;
}

int FailAtRows(ArrowArrayStream*, const char*) {
  torchtrace_export_failed("no pyarrow");
  return 1;
}

std::vector<Column> Columns() {
  return {{"n", ColumnType::kInt}, {"time", ColumnType::kCounter}, {"text", ColumnType::kText}};
}

const WritesTables& ParquetTables() { return std::get<WritesTables>((*FindExporter("parquet"))->write); }

TEST(ParquetTable, OffersRowsAsAStream) {
  std::vector<std::string> pulled;
  g_pulled = &pulled;
  SetParquetRowsFunction(PullRows);
  std::ostringstream out;
  {
    const auto table = ParquetTables().make(Columns(), &out, {});
    ASSERT_TRUE(table.ok());
    const int64_t text = (*table)->Intern("a");
    const int64_t odd = (*table)->Intern("\xff");
    ASSERT_TRUE((*table)->Add({1, 70, text}).ok());
    ASSERT_TRUE((*table)->Add({kNullCell, 80, odd}).ok());
    ASSERT_TRUE((*table)->Add({-3, kNullCell, kNullCell}).ok());
    ASSERT_TRUE((*table)->Add({4, 90, text}).ok());
    ASSERT_TRUE((*table)->Finish().ok());
  }
  const std::string schema = "+s time: n l time l text iu";
  EXPECT_EQ(pulled,
            (std::vector<std::string>{schema, schema, "1;70;a;", "null;80;\\xff;", "-3;null;null;", "4;90;a;", "end"}));
  EXPECT_EQ(out.str(), "the footer");
}

TEST(ParquetTable, OffersSoManyRowsAtATime) {
  std::vector<std::string> pulled;
  g_pulled = &pulled;
  SetParquetRowsFunction(PullRows);
  std::ostringstream out;
  const auto table = ParquetTables().make({{"n", ColumnType::kInt}}, &out, {});
  ASSERT_TRUE(table.ok());
  constexpr int64_t kRows = 300'000;
  for (int64_t i = 0; i < kRows; ++i) ASSERT_TRUE((*table)->Add({i}).ok());
  ASSERT_TRUE((*table)->Finish().ok());
  EXPECT_EQ(pulled.size(), size_t{kRows + 4});  // three times the schema, and the end
  EXPECT_EQ(pulled[2], "0;");
  EXPECT_EQ(pulled[pulled.size() - 2], "299999;");
}

TEST(ParquetTable, TellsWhatPythonSays) {
  SetParquetRowsFunction(FailAtRows);
  std::ostringstream out;
  EXPECT_EQ(ParquetTables().make(Columns(), &out, {}).status().message(), "no pyarrow");
}

TEST(ParquetTable, TellsThatTheStreamFailed) {
  std::vector<std::string> pulled;
  g_pulled = &pulled;
  SetParquetRowsFunction([](ArrowArrayStream* rows, const char* counters) {
    return PullRows(rows, counters) + torchtrace_export_write("x", 1);
  });
  std::ostream out(nullptr);
  EXPECT_EQ(ParquetTables().make(Columns(), &out, {}).status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace torchtrace
