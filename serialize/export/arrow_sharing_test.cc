// Arrays that outlive who made them, and children that are moved out.

#include "serialize/export/arrow_sharing.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/export/column_batch.h"

namespace torchtrace {
namespace {

const std::vector<Column>& SharedColumns() {
  static const std::vector<Column> columns = {{"n", ColumnType::kInt}, {"text", ColumnType::kJson}};
  return columns;
}

std::string TextOf(const ArrowArray& column, int64_t row) {
  const int32_t index = static_cast<const int32_t*>(column.buffers[1])[row];
  const auto* const offsets = static_cast<const int32_t*>(column.dictionary->buffers[1]);
  const auto* const bytes = static_cast<const char*>(column.dictionary->buffers[2]);
  return std::string(bytes + offsets[index], bytes + offsets[index + 1]);
}

TEST(ArrowSharing, ABatchOutlivesWhatItIsMadeFrom) {
  const std::vector<std::string> texts = {"[1]", "[2]"};
  auto batch = std::make_unique<ColumnBatch>(SharedColumns(), [&](int64_t cell) { return texts[cell]; });
  batch->Add({7, 1});
  batch->Add({8, 0});
  ArrowArray first, second;
  batch->Export(&first);
  batch->Clear();
  batch->Add({9, 0});
  batch->Export(&second);
  batch.reset();
  EXPECT_EQ(first.length, 2);
  EXPECT_EQ(TextOf(*first.children[1], 0) + TextOf(*first.children[1], 1), "[2][1]");
  EXPECT_EQ(TextOf(*second.children[1], 0), "[1]");

  // A child that was moved out lives on.
  ArrowArray child = std::exchange(*first.children[1], ArrowArray());
  first.release(&first);
  EXPECT_EQ(first.release, nullptr);
  EXPECT_EQ(TextOf(child, 1), "[1]");
  child.release(&child);
  second.release(&second);
}

TEST(ArrowSharing, TheOwnerLivesAsLongAsTheLastArray) {
  const auto owner = std::make_shared<int>(0);
  const void* buffers[1] = {};
  ArrowArray array = {}, child = {}, shared, again;
  array.n_buffers = child.n_buffers = 1;
  array.buffers = child.buffers = buffers;
  ArrowArray* children[] = {&child};
  array.n_children = 1;
  array.children = children;
  ShareArray(array, owner, &shared);
  ShareArray(shared, owner, &again);
  EXPECT_EQ(owner.use_count(), 5);
  shared.release(&shared);
  EXPECT_EQ(owner.use_count(), 3);
  again.release(&again);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(ArrowSharing, ASchemaIsCopiedWithItsMetadata) {
  ArrowSchema schema;
  {
    BatchStream stream(SharedColumns(), {{"key", "value"}, {"", "x"}});
    ColumnBatch batch(SharedColumns(), [](int64_t) { return ""; });
    ArrowArrayStream offered = stream.Offer(&batch);
    ASSERT_EQ(offered.get_schema(&offered, &schema), 0);
    offered.release(&offered);
  }
  EXPECT_STREQ(schema.children[0]->name, "n");
  EXPECT_EQ(schema.children[0]->metadata, nullptr);
  EXPECT_STREQ(schema.children[1]->dictionary->format, "u");
  const std::string pair("\1\0\0\0\17\0\0\0torchtrace.text\4\0\0\0json", 31);
  EXPECT_EQ(std::string(schema.children[1]->metadata, pair.size()), pair);
  const std::string pairs("\2\0\0\0\3\0\0\0key\5\0\0\0value\0\0\0\0\1\0\0\0x", 29);
  EXPECT_EQ(std::string(schema.metadata, pairs.size()), pairs);
  schema.release(&schema);
}

}  // namespace
}  // namespace torchtrace
