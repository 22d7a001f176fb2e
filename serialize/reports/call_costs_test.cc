#include "serialize/reports/call_costs.h"

#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

// FLOPs and bytes that count for calls, by their configs.
struct Counted {
  double flops = 0, bytes = 0, flops_of_level = 0, bytes_of_level = 0;
  uint64_t lacking = 0;

  bool operator==(const Counted&) const = default;
};

ConfigCost Known(double flops, double bytes = 0) { return {{flops, bytes}}; }

// A call with those inside it. Its number is its config's.
struct TestCall {
  uint32_t number;
  uint8_t level;
  ConfigCost cost;
  std::vector<TestCall> inside = {};
  bool raised = false;
  uint64_t calls = 1;
};

class Counting {
 public:
  void Run(const TestCall& call, uint32_t depth = 0) {
    nesting_.Close(depth, /*raised=*/false, count_);
    nesting_.Enter({depth, call.number, 0, call.level, call.calls}, call.cost);
    for (const TestCall& inner : call.inside) Run(inner, depth + 1);
    nesting_.Close(depth, call.raised, count_);
  }

  const Counted& operator[](uint32_t number) { return counted_[number]; }

 private:
  CostNesting nesting_;
  std::map<uint32_t, Counted> counted_;
  const CostNesting::Count count_ = [this](const CostNesting::Call& call, const CostSum& of_level,
                                           const CostSum& of_trace) {
    Counted& counted = counted_[call.config];
    counted.flops += of_trace.cost.flops.value_or(0);
    counted.bytes += of_trace.cost.bytes.value_or(0);
    counted.flops_of_level += of_level.cost.flops.value_or(0);
    counted.bytes_of_level += of_level.cost.bytes.value_or(0);
    counted.lacking += of_trace.lacking;
  };
};

TEST(CostNestingTest, FlopsAreTheInnermostCalls) {
  Counting counting;
  // matmul of one example, whose operator has all of them; no other operator has FLOPs.
  counting.Run({1, 1, Known(10), {{2, 2, Known(30), {{3, 4, Known(30)}}}, {4, 2, {{{}, 8}}}}});
  EXPECT_EQ(counting[1].flops, 0);
  EXPECT_EQ(counting[1].flops_of_level, 10);
  EXPECT_EQ(counting[2].flops, 0);
  EXPECT_EQ(counting[2].flops_of_level, 30);
  EXPECT_EQ(counting[3].flops, 30);
  // A call whose inner ones have none.
  counting.Run({5, 2, Known(7), {{4, 2, {{{}, 8}}}}});
  EXPECT_EQ(counting[5].flops, 7);
  // Of several inner ones all count.
  counting.Run({6, 4, Known(9), {{7, 4, Known(4)}, {8, 4, Known(5), {}, false, 3}}});
  EXPECT_EQ(counting[6].flops_of_level, 0);
  EXPECT_EQ(counting[7].flops, 4);
  EXPECT_EQ(counting[8].flops, 15);
  EXPECT_EQ(counting[8].flops_of_level, 15);
}

TEST(CostNestingTest, BytesAreTheOutermostOperators) {
  Counting counting;
  counting.Run({1, 1, Known(0, 100), {{2, 4, Known(0, 60), {{3, 2, Known(0, 50)}, {4, 4, Known(0, 20)}}}}});
  EXPECT_EQ(counting[1].bytes, 0);
  EXPECT_EQ(counting[1].bytes_of_level, 100);
  EXPECT_EQ(counting[2].bytes, 60);
  EXPECT_EQ(counting[3].bytes, 0);
  EXPECT_EQ(counting[3].bytes_of_level, 50);
  EXPECT_EQ(counting[4].bytes_of_level, 0);
  counting.Run({5, 1, Known(0, 100), {{6, 0, Known(0, 90)}}});
  EXPECT_EQ(counting[5].bytes, 100);
  EXPECT_EQ(counting[6].bytes, 0);
}

TEST(CostNestingTest, CallsThatRaisedCostNothing) {
  Counting counting;
  counting.Run({1, 1, Known(10, 1), {{2, 2, Known(10, 1), {}, true}}});
  EXPECT_EQ(counting[2], Counted());
  EXPECT_EQ(counting[1].flops, 10) << "it did the work in another way";
  counting.Run({3, 1, Known(10, 1), {{4, 2, Known(10, 1)}}, true});
  EXPECT_EQ(counting[3], Counted());
  EXPECT_EQ(counting[4].flops, 10);
  counting.Run({5, 2, {{}, true}, {}, true});
  EXPECT_EQ(counting[5].lacking, 0u);
}

TEST(CostNestingTest, AWholeCostIsThatOfAllCallsInside) {
  ConfigCost whole = Known(50);
  whole.whole = true;
  Counting counting;
  counting.Run({1, 2, whole, {{2, 2, Known(10), {{3, 4, Known(10)}}}, {4, 4, Known(20)}}});
  EXPECT_EQ(counting[1].flops, 50);
  EXPECT_EQ(counting[1].flops_of_level, 50);
  for (const uint32_t inner : {2, 3, 4}) EXPECT_EQ(counting[inner], Counted());
  counting.Run({5, 1, Known(60), {{1, 2, whole}}});
  EXPECT_EQ(counting[5].flops, 0);
  EXPECT_EQ(counting[1].flops, 100);
  // It has ended.
  counting.Run({6, 2, Known(1)});
  EXPECT_EQ(counting[6].flops, 1);
}

TEST(CostNestingTest, TheInnermostCallsWithoutAFormulaAreLacking) {
  ConfigCost unknown;
  unknown.lacks_formula = true;
  Counting counting;
  counting.Run({1, 2, unknown, {{2, 2, unknown}, {3, 2, Known(1)}}});
  EXPECT_EQ(counting[1].lacking, 0u);
  EXPECT_EQ(counting[2].lacking, 1u);
  counting.Run({4, 2, Known(1), {{5, 2, unknown}}});
  EXPECT_EQ(counting[5].lacking, 0u) << "the cost of the call around is known";
  EXPECT_EQ(counting[4].flops, 1);
}

// A log may lack ends.
TEST(CostNestingTest, ACallEndsTheDeeperOnes) {
  Counting counting;
  CostNesting nesting;
  std::vector<uint32_t> counted;
  const CostNesting::Count count = [&](const CostNesting::Call& call, const CostSum&, const CostSum& of_trace) {
    if (of_trace.cost.flops.has_value()) counted.push_back(call.config);
  };
  nesting.Enter({0, 1, 0, 2, 1}, Known(1));
  nesting.Enter({1, 2, 0, 2, 1}, Known(1));
  nesting.Enter({2, 3, 0, 2, 1}, Known(1));
  nesting.Close(1, false, count);
  nesting.Enter({1, 4, 0, 2, 1}, Known(1));
  nesting.Close(0, false, count);
  EXPECT_EQ(counted, (std::vector<uint32_t>{3, 4}));
}

}  // namespace
}  // namespace torchtrace
