#include "serialize/trace/node_makers.h"

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

RecordFacts Forward(uint64_t thread, int64_t sequence) {
  RecordFacts facts;
  facts.thread = thread;
  facts.sequence = sequence;
  return facts;
}

RecordFacts Backward(uint64_t forward_thread, int64_t sequence) {
  RecordFacts facts;
  facts.thread = 9;
  facts.forward_thread = forward_thread;
  facts.sequence = sequence;
  return facts;
}

TEST(NodeMakersTest, FindsTheLastCallOfThreadAndNumber) {
  NodeMakers<int> calls;
  calls.Add(0, Forward(1, 5), 15);
  calls.Add(0, Forward(2, 5), 25);
  calls.Add(0, Forward(1, 5), 16);
  ASSERT_NE(calls.Find(0, Backward(1, 5)), nullptr);
  EXPECT_EQ(*calls.Find(0, Backward(1, 5)), 16);
  EXPECT_EQ(*calls.Find(0, Backward(2, 5)), 25);
  EXPECT_EQ(*calls.Find(0, Backward(2, 5)), 25) << "a graph that is kept is gone through again";
  EXPECT_EQ(calls.Find(0, Backward(3, 5)), nullptr);
  EXPECT_EQ(calls.Find(1, Backward(1, 5)), nullptr) << "each process numbers its threads";
}

TEST(NodeMakersTest, ACallMakesTheNodesBeforeItsLastOne) {
  NodeMakers<int> calls;
  calls.Add(0, Forward(1, 2), 12);
  calls.Add(0, Forward(1, 6), 16);
  EXPECT_EQ(*calls.Find(0, Backward(1, 2)), 12);
  EXPECT_EQ(*calls.Find(0, Backward(1, 3)), 16);
  EXPECT_EQ(*calls.Find(0, Backward(1, 6)), 16);
  EXPECT_EQ(calls.Find(0, Backward(1, 7)), nullptr);
}

TEST(NodeMakersTest, OthersAreNeither) {
  NodeMakers<int> calls;
  calls.Add(0, Forward(1, -1), 1);
  calls.Add(0, Backward(1, 2), 2);
  EXPECT_EQ(calls.Find(0, Backward(1, -1)), nullptr);
  EXPECT_EQ(calls.Find(0, Backward(9, 2)), nullptr);
  calls.Add(0, Forward(1, 3), 3);
  EXPECT_EQ(calls.Find(0, Forward(1, 3)), nullptr);
}

TEST(NodeMakersTest, KeepsTheLastOnes) {
  NodeMakers<int> calls(4);
  for (int i = 0; i < 11; ++i) calls.Add(0, Forward(1, i), i);
  for (int i = 7; i < 11; ++i) {
    ASSERT_NE(calls.Find(0, Backward(1, i)), nullptr) << i;
    EXPECT_EQ(*calls.Find(0, Backward(1, i)), i);
  }
  EXPECT_EQ(calls.Find(0, Backward(1, 2)), nullptr);
}

}  // namespace
}  // namespace torchtrace
