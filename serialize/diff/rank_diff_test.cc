#include "serialize/diff/rank_diff.h"

#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/one_trace_test.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::HasSubstr;

Value Group(const std::string& name) {
  return NamedValue(ValueTag::kObject, absl::StrCat("torch.distributed.distributed_c10d.ProcessGroup", name));
}
Value Sum() { return NamedValue(ValueTag::kObject, "torch.distributed.distributed_c10d.ReduceOp.SUM"); }
Value Listed(Value value) { return ItemsValue(ValueTag::kList, {std::move(value)}); }

Config AllReduce(std::vector<Dim> shape, const std::string& group = ".0") {
  return MakeConfig(2, "c10d::allreduce_", {Listed(TensorValue(std::move(shape))), Group(group), Sum()});
}
Config Broadcast(std::vector<Dim> shape, int64_t root, const std::string& group = ".0") {
  return MakeConfig(2, "c10d::broadcast_",
                    {Listed(TensorValue(std::move(shape))), Group(group), IntValue(root), IntValue(0)});
}
Config Send(std::vector<Dim> shape, int64_t to, int64_t tag = 0, const std::string& group = ".0") {
  return MakeConfig(2, "c10d::send",
                    {Listed(TensorValue(std::move(shape))), Group(group), IntValue(to), IntValue(tag)});
}
Config Receive(std::vector<Dim> shape, int64_t from, int64_t tag = 0, const std::string& group = ".0") {
  return MakeConfig(2, "c10d::recv_",
                    {Listed(TensorValue(std::move(shape))), Group(group), IntValue(from), IntValue(tag)});
}

class RankDiffTest : public OneTraceTest<WriteRankDiff> {
 protected:
  RankDiffTest() { AddRanks(4); }

  void AddRanks(int64_t ranks) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const uint32_t process = rank == 0 ? 0 : trace_.AddProcess({});
      trace_.process(process).known.ranked = {rank, ranks};
      trace_.process(process).known.role = "child";
      trace_.process(process).known.levels = {1, 2};
    }
  }
  // Calls it on each of these ranks.
  void On(const std::vector<uint32_t>& ranks, const Config& config) {
    for (const uint32_t rank : ranks) {
      trace_.In(rank, 0);
      trace_.Call(config);
    }
  }
};

TEST_F(RankDiffTest, RanksThatDoTheSame) {
  On({0, 1, 2, 3}, AllReduce({4}));
  On({1, 0}, Broadcast({4}, 0, ".1"));
  On({3, 2}, AllReduce({5}, ".2"));
  On({3, 2, 1, 0}, Broadcast({4}, 0));
  EXPECT_EQ(Text(),
            "same\n"
            "default group, ranks 0-3: 2 collectives, the same\n"
            "group 1, ranks 0, 1: 1 collective, the same\n"
            "group 2, ranks 2, 3: 1 collective, the same\n");
}

TEST_F(RankDiffTest, WhereTheyDiffer) {
  On({0, 1, 2, 3}, AllReduce({4}));
  On({0, 1, 3}, AllReduce({4}));
  On({2}, AllReduce({5}));
  On({0, 1, 2, 3}, Broadcast({4}, 0));
  const nlohmann::json parting = Json()["groups"][0]["first_difference"];
  EXPECT_EQ(parting["number"], 2);
  EXPECT_EQ(parting["in"], nlohmann::json({"shape"}));
  EXPECT_EQ(parting["ranks"].size(), size_t{4});
  EXPECT_THAT(Text(), HasSubstr("default group, ranks 0-3: collective 2 differs in shape; the 1 before are the same"));
  EXPECT_THAT(Text(), HasSubstr("0, 1, 3  4, 5, 6"));
}

TEST_F(RankDiffTest, EachPartIsCompared) {
  struct Case {
    Config odd;
    std::string field;
  };
  Config dtype = AllReduce({4});
  dtype.args[0].items[0].text = "float64";
  Config device = AllReduce({4});
  device.args[0].items[0].device = "cuda:1";
  Config reduction = AllReduce({4});
  reduction.args[2].text = "torch.distributed.distributed_c10d.ReduceOp.MAX";
  for (const Case& each : {Case{dtype, "dtype"}, Case{device, "device"}, Case{reduction, "reduction"},
                           Case{Broadcast({4}, 0), "operator"}}) {
    // In a group of its own.
    Config usual = AllReduce({4}, absl::StrCat(".of ", each.field)), odd = each.odd;
    odd.args[1] = usual.args[1];
    On({0}, usual);
    On({1}, odd);
  }
  for (const nlohmann::json& group : Json()["groups"]) {
    EXPECT_EQ(absl::StrCat("of ", group["first_difference"]["in"][0].get<std::string>()),
              group["group"].get<std::string>());
    EXPECT_EQ(group["first_difference"]["in"].size(), size_t{1});
  }
}

TEST_F(RankDiffTest, TheIndexOfADeviceIsARanksOwn) {
  for (uint32_t rank = 0; rank < 4; ++rank) {
    Config config = AllReduce({4});
    config.args[0].items[0].device = absl::StrCat("cuda:", rank);
    On({rank}, config);
  }
  EXPECT_THAT(Text(), HasSubstr("same\n"));
}

TEST_F(RankDiffTest, TheRootIsCompared) {
  On({0, 1, 2}, Broadcast({4}, 0));
  On({3}, Broadcast({4}, 1));
  EXPECT_EQ(Json()["groups"][0]["first_difference"]["in"], nlohmann::json({"root"}));
}

TEST_F(RankDiffTest, WhoWaitsForWhom) {
  On({0, 1, 2, 3}, AllReduce({4}));
  for (const uint32_t rank : {0, 1, 2}) {
    trace_.In(rank, 0);
    trace_.Enter(AllReduce({4}));
    trace_.process(rank).closed = false;
  }
  trace_.process(3).known.exit_code = 1;
  EXPECT_THAT(Text(), HasSubstr("collective 2: ranks 0-2 wait for rank 3; the 1 before are the same"));
  EXPECT_THAT(Text(), HasSubstr("only 1; ended: exit code 1"));
  EXPECT_EQ(Json()["groups"][0]["first_difference"]["in"], nlohmann::json({"count"}));
}

TEST_F(RankDiffTest, ARankThatNeverCameToTheDefaultGroup) {
  On({0, 1, 2}, AllReduce({4}));
  EXPECT_THAT(Text(), HasSubstr("collective 1: rank 3 doesn't call it"));
}

TEST_F(RankDiffTest, WhatARankHasLeftOut) {
  On({0, 1, 2, 3}, AllReduce({1}));
  On({0, 1, 3}, AllReduce({2}));
  On({0, 1, 2, 3}, Broadcast({3}, 0));
  On({0, 1, 2, 3}, AllReduce({4}));
  EXPECT_THAT(Text(), HasSubstr("without this all_reduce, rank 2 goes on as the others\n"));
}

TEST_F(RankDiffTest, WhatARankHasAdded) {
  On({2}, AllReduce({2}));
  On({0, 1, 2, 3}, Broadcast({3}, 0));
  On({0, 1, 2, 3}, AllReduce({4}));
  EXPECT_THAT(Text(), HasSubstr("after this all_reduce, rank 2 goes on as the others\n"));
}

TEST_F(RankDiffTest, AFunctionIsOpenUntilItsWorkIsDone) {
  for (const uint32_t rank : {0, 1}) {
    trace_.In(rank, 0);
    trace_.Enter(MakeConfig(1, "torch.distributed.distributed_c10d.all_reduce", {TensorValue({4})},
                            {{"group", NamedValue(ValueTag::kNone)}}));
    trace_.Call(AllReduce({4}));
  }
  EXPECT_THAT(Text(), HasSubstr("ranks 0, 1 wait for ranks 2, 3"));
  EXPECT_THAT(Text(), HasSubstr("torch.distributed.distributed_c10d.all_reduce(Tensor([4]"));
}

TEST_F(RankDiffTest, RanksThatAreNoMembersHaveNone) {
  const Config member =
      MakeConfig(1, "torch.distributed.distributed_c10d.all_reduce", {TensorValue({4})}, {{"group", Group(".1")}});
  const Config other =
      MakeConfig(1, "torch.distributed.distributed_c10d.all_reduce", {TensorValue({4})}, {{"group", IntValue(-100)}});
  On({0, 1}, member);
  On({2, 3}, other);
  EXPECT_EQ(Text(), "same\ngroup 1, ranks 0, 1: 1 collective, the same\n");
}

TEST_F(RankDiffTest, FunctionalCollectivesNameTheirGroup) {
  const auto config = [](const std::string& group) {
    return MakeConfig(2, "_c10d_functional::all_reduce", {TensorValue({4}), TextValue("sum"), TextValue(group)});
  };
  On({0, 1, 2, 3}, config("0"));
  On({0, 1}, config("5"));
  EXPECT_THAT(Text(), HasSubstr("default group, ranks 0-3: 1 collective, the same\ngroup 5, ranks 0, 1: 1"));
}

TEST_F(RankDiffTest, WhatIsSentInAnAllToAllIsReceived) {
  const auto sizes = [](std::vector<int64_t> of) {
    std::vector<Value> items;
    for (const int64_t size : of) items.push_back(IntValue(size));
    return ItemsValue(ValueTag::kList, items);
  };
  const auto exchange = [&](std::vector<int64_t> receives, std::vector<int64_t> sends, int64_t rows = 0) {
    const auto tensor = [rows](const std::vector<int64_t>& of) {
      return TensorValue({std::accumulate(of.begin(), of.end(), rows), 3});
    };
    return MakeConfig(2, "c10d::alltoall_base_",
                      {tensor(receives), tensor(sends), Group(".0"), sizes(receives), sizes(sends)});
  };
  // Rank i sends i + j rows to rank j; the last time rank 2 expects another one of rank 1.
  for (int64_t round = 0; round < 2; ++round) {
    for (int64_t i = 0; i < 4; ++i) {
      std::vector<int64_t> rows = {i, i + 1, i + 2, i + 3}, receives = rows;
      if (round == 1 && i == 2) ++receives[1];
      On({static_cast<uint32_t>(i)}, exchange(receives, rows));
    }
  }
  EXPECT_THAT(Text(), HasSubstr("collective 2 differs in split; the 1 before are the same"));
  EXPECT_THAT(Text(), HasSubstr("rank 1 sends 9 elements to rank 2, which receives 12\n"));
  EXPECT_EQ(Json()["groups"][0]["first_difference"]["in"], nlohmann::json({"split"}));
}

TEST_F(RankDiffTest, AnAllToAllThatSomeRanksSplitEvenly) {
  const auto exchange = [](bool even) {
    std::vector<std::pair<std::string, Value>> keywords;
    const Value sizes = ItemsValue(ValueTag::kList, {IntValue(2), IntValue(2), IntValue(2), IntValue(2)});
    if (!even) keywords = {{"input_split_sizes", sizes}, {"output_split_sizes", sizes}};
    return MakeConfig(1, "torch.distributed.distributed_c10d.all_to_all_single",
                      {TensorValue({8, 3}), TensorValue({8, 3})}, keywords);
  };
  On({0, 2}, exchange(true));
  On({1, 3}, exchange(false));
  const auto lists = [](std::vector<Dim> odd) {
    const auto list = [](std::vector<Dim> last) {
      return ItemsValue(ValueTag::kList,
                        {TensorValue({2}), TensorValue({2}), TensorValue({2}), TensorValue(std::move(last))});
    };
    return MakeConfig(1, "torch.distributed.distributed_c10d.all_to_all", {list({2}), list(std::move(odd))});
  };
  On({0, 1, 2, 3}, lists({2}));
  EXPECT_EQ(Text(), "same\ndefault group, ranks 0-3: 2 collectives, the same\n");
  On({0, 1}, lists({2}));
  On({2, 3}, lists({5}));
  EXPECT_THAT(Text(), HasSubstr("rank 2 sends 5 elements to rank 3, which receives 2\n"));
}

TEST_F(RankDiffTest, MessagesArePairedByPeers) {
  On({0}, Send({4}, 1));
  On({0}, Send({6}, 2));
  On({2}, Receive({6}, 0));
  On({1}, Receive({2, 2}, 0));
  EXPECT_EQ(Text(), "same\n2 messages received as sent\n");
}

TEST_F(RankDiffTest, AMessageThatIsNotReceivedAsSent) {
  On({0}, Send({4}, 1, 7));
  On({1}, Receive({4}, 0, 7));
  On({0}, Send({4}, 1, 7));
  On({1}, Receive({5}, 0, 7));
  On({3}, Send({4}, 2));
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("message 2 from rank 0 to rank 1, tag 7: differs in shape\n"));
  EXPECT_THAT(text, HasSubstr("message 1 from rank 3 to rank 2, tag 0: isn't received\n"));
  EXPECT_EQ(Json()["messages"]["matched"], 1);
}

TEST_F(RankDiffTest, PeersOfAGroupAreNumberedWithinIt) {
  On({2, 3}, AllReduce({1}, ".2"));
  On({2}, Send({4}, 1, 0, ".2"));
  On({3}, Receive({4}, 0, 0, ".2"));
  EXPECT_THAT(Text(), HasSubstr("1 message received as sent\n"));
}

TEST_F(RankDiffTest, TracesOfRanksWithALabelEachAreOneRun) {
  for (uint32_t rank = 0; rank < 4; ++rank) trace_.process(rank).known.label = absl::StrCat("r", rank);
  On({0, 1, 2, 3}, AllReduce({4}));
  EXPECT_THAT(Text(), HasSubstr("default group, ranks 0-3: 1 collective, the same"));
}

TEST_F(RankDiffTest, GroupsWithoutNamesAreComparedTogether) {
  On({0, 1, 2, 3}, AllReduce({4}, ""));
  EXPECT_THAT(Text(), HasSubstr("note: the trace doesn't tell process groups apart"));
}

TEST_F(RankDiffTest, WhatIsNotCompared) {
  EXPECT_THAT(Text(), HasSubstr("error: the trace has no calls of torch.distributed's operations"));
  On({0}, MakeConfig(2, "_c10d_functional::wait_tensor", {TensorValue({4})}));
  EXPECT_THAT(Text(), HasSubstr("error: the trace has no calls of torch.distributed's operations"));
}

TEST(RankDiffErrorsTest, NoRanksAndOneRank) {
  FakeTrace trace;
  std::ostringstream out;
  EXPECT_THAT(std::string(WriteRankDiff(&trace, {}, &out).status().message()),
              HasSubstr("no process of the trace has a rank"));
  trace.process(0).known.ranked = {2, 4};
  trace.Call(AllReduce({4}));
  EXPECT_THAT(std::string(WriteRankDiff(&trace, {}, &out).status().message()),
              HasSubstr("the trace has only rank 2 of 4"));
}

}  // namespace
}  // namespace torchtrace
