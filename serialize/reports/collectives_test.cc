#include "serialize/reports/collectives.h"

#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::HasSubstr;
using testing::Not;

Config AllReduce() {
  return MakeConfig(1, "torch.distributed.distributed_c10d.all_reduce", {}, {{"group", NamedValue(ValueTag::kNone)}});
}
Config Broadcast() { return MakeConfig(0, "torch.distributed.broadcast", {IntValue(0)}); }
Config Operator(const std::string& group = "torch.ScriptObject") {
  return MakeConfig(2, "c10d::allreduce_", {IntValue(1), NamedValue(ValueTag::kObject, group)});
}

// Ranks 0 to 3, each with a process that is or isn't there any more.
class CollectivesTest : public testing::Test {
 protected:
  CollectivesTest() {
    for (int64_t rank = 0; rank < 4; ++rank) {
      const uint32_t process = rank == 0 ? 0 : trace_.AddProcess({});
      trace_.process(process).known.ranked = {rank, 4};
      trace_.process(process).known.role = "child";
      trace_.process(process).closed = false;
    }
  }
  std::string Text() {
    std::ostringstream out;
    EXPECT_TRUE(WriteOpenCalls(&trace_, {}, &out).ok());
    return out.str().substr(0, out.str().find("\n\nmain"));
  }
  nlohmann::json Json() {
    std::ostringstream out;
    EXPECT_TRUE(WriteOpenCalls(&trace_, {.json = true}, &out).ok());
    return nlohmann::json::parse(out.str());
  }

  FakeTrace trace_;
};

TEST_F(CollectivesTest, WhoWaitsForWhom) {
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace_.In(rank, 0);
    trace_.Call(Broadcast());
    // The operator is a part of it.
    trace_.Enter(AllReduce());
    trace_.Call(Operator());
    trace_.Leave();
    trace_.Enter(rank == 1 ? MakeConfig(2, "aten::mm") : AllReduce());
    trace_.Wait(1000);
    trace_.Call(MakeConfig(1, "torch.is_complex"));
  }
  EXPECT_EQ(Text(),
            "collectives of the default group: ranks 0, 2, 3 wait for rank 1\n"
            "rank  number  last\n"
            "   0       3  torch.distributed.distributed_c10d.all_reduce  open for 1.02 us; killed or still running\n"
            "   1       2  torch.distributed.distributed_c10d.all_reduce  ended 1.03 us ago; in aten::mm for 1.02 us; "
            "killed or still running\n"
            "   2       3  torch.distributed.distributed_c10d.all_reduce  open for 1.02 us; killed or still running\n"
            "   3       3  torch.distributed.distributed_c10d.all_reduce  open for 1.02 us; killed or still running");
  const nlohmann::json collectives = Json()["collectives"];
  ASSERT_EQ(collectives.size(), 1u);
  EXPECT_EQ(collectives[0]["group"], "default");
  EXPECT_EQ(collectives[0]["waiting"], nlohmann::json({0, 2, 3}));
  EXPECT_EQ(collectives[0]["for"], nlohmann::json({1}));
  EXPECT_EQ(collectives[0]["ranks"][0]["number"], 3);
  EXPECT_EQ(collectives[0]["ranks"][0]["open_ns"], 1020);
  EXPECT_EQ(collectives[0]["ranks"][1]["inside"]["api"], "aten::mm");
}

TEST_F(CollectivesTest, OperatorsDoNotSayTheirGroup) {
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace_.In(rank, 0);
    trace_.Call(Operator());
    if (rank > 1) trace_.Call(Operator());
  }
  // Ranks 0 and 1 may be in no group with the others.
  const std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("collectives of unknown groups\nrank  number  last\n   0       1  c10d::allreduce_  ended "));
  EXPECT_THAT(text, HasSubstr("; in no recorded call; "));
  EXPECT_THAT(text, Not(HasSubstr("wait")));
  const Config other = MakeConfig(1, "torch.distributed.all_reduce", {},
                                  {{"group", NamedValue(ValueTag::kObject, "torch.distributed.ProcessGroup")}});
  trace_.In(3, 0);
  trace_.Enter(other);
  EXPECT_THAT(Text(), Not(HasSubstr("default group")));
}

TEST_F(CollectivesTest, GroupsAreNamed) {
  const std::string group = "torch.distributed.distributed_c10d.ProcessGroup.";
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace_.In(rank, 0);
    trace_.Call(Operator(group + "0"));
    if (rank > 1) trace_.Call(Operator(group + "dp"));
  }
  trace_.In(2, 0);
  trace_.Enter(Operator(group + "dp"));
  // All have come as far in the default group, and ranks 0 and 1 aren't known to be in the other one.
  EXPECT_THAT(Text(), testing::StartsWith("collectives of group dp: rank 2 waits for rank 3\nrank "));
  const nlohmann::json collectives = Json()["collectives"];
  ASSERT_EQ(collectives.size(), 1u);
  EXPECT_EQ(collectives[0]["group"], "dp");
  EXPECT_EQ(collectives[0]["ranks"].size(), 2u);
}

TEST_F(CollectivesTest, RanksThatCallDifferentOnes) {
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace_.In(rank, 0);
    trace_.Call(AllReduce());
    trace_.Enter(rank == 2 ? Broadcast() : AllReduce());
  }
  EXPECT_THAT(Text(), HasSubstr("collectives of the default group: from number 2 on ranks call different ones\n"));
  EXPECT_EQ(Json()["collectives"][0]["differ_from"], 2);
}

TEST_F(CollectivesTest, NothingToSay) {
  // All have come as far, and none is in one.
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace_.In(rank, 0);
    trace_.Call(AllReduce());
    trace_.Enter(MakeConfig(1, "torch.relu"));
  }
  EXPECT_THAT(Text(), Not(HasSubstr("collective")));
  EXPECT_FALSE(Json().contains("collectives"));
  // All are in one: nobody waits for another.
  for (uint32_t rank = 0; rank < 4; ++rank) {
    trace_.In(rank, 1);
    trace_.Enter(AllReduce());
  }
  EXPECT_THAT(Text(), HasSubstr("collectives of the default group\nrank"));
}

TEST_F(CollectivesTest, TheLatestProcessOfARankCounts) {
  trace_.In(0, 0);
  trace_.Enter(AllReduce());
  trace_.In(1, 0);
  for (int i = 0; i < 7; ++i) trace_.Call(AllReduce());
  const uint32_t again = trace_.AddProcess({});
  trace_.process(again).known.ranked = {1, 4};
  trace_.In(again, 0);
  trace_.Enter(AllReduce());
  const nlohmann::json ranks = Json()["collectives"][0]["ranks"];
  EXPECT_EQ(ranks[1]["number"], 1);
}

TEST_F(CollectivesTest, ARankThatHasNotComeToItsFirstOne) {
  trace_.process(3).known.role = "fork";
  for (uint32_t rank = 0; rank < 2; ++rank) {
    trace_.In(rank, 0);
    trace_.Enter(AllReduce());
  }
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("collectives of the default group: ranks 0, 1 wait for rank 2\n"));
  EXPECT_THAT(text,
              HasSubstr("\n   2       0  -                                              in no recorded call; killed"));
}

TEST(IsCollective, ByName) {
  for (const char* const api : {"c10d::allreduce_", "c10d::_allgather_base_", "_c10d_functional::all_reduce.default",
                                "torch.distributed.all_reduce", "torch.distributed.distributed_c10d.barrier"}) {
    EXPECT_TRUE(IsCollective(api)) << api;
  }
  for (const char* const api :
       {"c10d::send", "c10d::recv_any_source_", "_c10d_functional::wait_tensor", "torch.distributed.get_rank",
        "aten::all_reduce", "mine.all_reduce", "all_reduce", ""}) {
    EXPECT_FALSE(IsCollective(api)) << api;
  }
}

}  // namespace
}  // namespace torchtrace
