#include "serialize/export/row_lists.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

std::vector<int64_t> All(const RowLists<int64_t>& rows, size_t list) {
  std::vector<int64_t> all;
  EXPECT_TRUE(rows.Read(list, [&all](int64_t row) { return all.push_back(row), absl::OkStatus(); }).ok());
  return all;
}

TEST(RowLists, KeepEachListInOrder) {
  RowLists<int64_t> rows(testing::TempDir());
  for (size_t list = 0; list < 3; ++list) EXPECT_EQ(rows.AddList(), list);
  std::vector<int64_t> expected[3];
  for (int64_t i = 0; i < 10'000; ++i) {
    const size_t list = i % 10 == 0 ? 1 : 0;
    EXPECT_EQ(rows.size(list), expected[list].size());
    ASSERT_TRUE(rows.Append(list, i).ok());
    expected[list].push_back(i);
  }
  // Rows in the file, at the ends of chunks, and in memory.
  for (const size_t place : {0, 127, 128, 200, 8'999}) {
    ASSERT_TRUE(rows.Set(0, place, -1).ok());
    expected[0][place] = -1;
  }
  for (size_t list = 0; list < 3; ++list) EXPECT_EQ(All(rows, list), expected[list]);
}

TEST(RowLists, EndWithTheVisitorsError) {
  RowLists<int64_t> rows(testing::TempDir());
  rows.AddList();
  for (int64_t i = 0; i < 200; ++i) ASSERT_TRUE(rows.Append(0, i).ok());
  int seen = 0;
  const absl::Status read = rows.Read(0, [&seen](int64_t) { return ++seen, absl::AbortedError("enough"); });
  EXPECT_EQ(read.message(), "enough");
  EXPECT_EQ(seen, 1);
}

TEST(RowLists, SayWhereNoFileCanBeMade) {
  RowLists<int64_t> rows("/nowhere");
  rows.AddList();
  absl::Status status;
  for (int64_t i = 0; i < 1000 && status.ok(); ++i) status = rows.Append(0, i);
  EXPECT_EQ(status.message(), "cannot make a temporary file in /nowhere: No such file or directory");
}

}  // namespace
}  // namespace torchtrace
