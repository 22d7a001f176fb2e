#include "serialize/trace/forward_calls.h"

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

TEST(ForwardCallsTest, FindsTheLastCallOfThreadAndNumber) {
  ForwardCalls<int> calls;
  calls.Add(Forward(1, 5), 15);
  calls.Add(Forward(2, 5), 25);
  calls.Add(Forward(1, 5), 16);
  ASSERT_NE(calls.Find(Backward(1, 5)), nullptr);
  EXPECT_EQ(*calls.Find(Backward(1, 5)), 16);
  EXPECT_EQ(*calls.Find(Backward(2, 5)), 25);
  EXPECT_EQ(*calls.Find(Backward(2, 5)), 25) << "a graph that is kept is gone through again";
  EXPECT_EQ(calls.Find(Backward(3, 5)), nullptr);
}

TEST(ForwardCallsTest, OthersAreNeither) {
  ForwardCalls<int> calls;
  calls.Add(Forward(1, -1), 1);
  calls.Add(Backward(1, 2), 2);
  EXPECT_EQ(calls.Find(Backward(1, -1)), nullptr);
  EXPECT_EQ(calls.Find(Backward(9, 2)), nullptr);
  calls.Add(Forward(1, 3), 3);
  EXPECT_EQ(calls.Find(Forward(1, 3)), nullptr);
}

TEST(ForwardCallsTest, KeepsTheLastOnes) {
  ForwardCalls<int> calls(4);
  for (int i = 0; i < 11; ++i) calls.Add(Forward(1, i), i);
  for (int i = 7; i < 11; ++i) {
    ASSERT_NE(calls.Find(Backward(1, i)), nullptr) << i;
    EXPECT_EQ(*calls.Find(Backward(1, i)), i);
  }
  EXPECT_EQ(calls.Find(Backward(1, 2)), nullptr);
}

}  // namespace
}  // namespace torchtrace
