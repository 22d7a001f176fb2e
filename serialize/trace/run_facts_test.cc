#include "serialize/trace/run_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Json = nlohmann::json;

std::vector<std::string> Sentences(const std::vector<Json>& metadata) {
  std::vector<ProcessInfo> processes;
  for (const Json& json : metadata) processes.emplace_back().SetMetadata(std::make_shared<Json>(json));
  return RankSentences(FindRankGaps(processes));
}

Json Ranked(int rank, int world_size) { return {{"rank", rank}, {"world_size", world_size}}; }

TEST(RanksTest, FromMetadataOrEnvironment) {
  const struct {
    const char* metadata;
    int rank;
    int world_size;
  } kCases[] = {
      {R"({"rank": 3, "world_size": 8, "environment": {"RANK": "1"}})", 3, 8},
      {R"({"environment": {"RANK": "1", "WORLD_SIZE": "4"}})", 1, 4},
      {R"({"environment": {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3"}})", 2, 3},
      {R"({"environment": {"RANK": "x", "SLURM_PROCID": "5"}})", 5, -1},
      {R"({"rank": -1, "world_size": 1e30})", -1, -1},
      {R"({"environment": {"RANK": 1}})", -1, -1},
      {R"({"environment": []})", -1, -1},
      {R"([])", -1, -1},
  };
  for (const auto& c : kCases) {
    const ProcessRank rank = ParseProcessMetadata(Json::parse(c.metadata)).ranked;
    EXPECT_EQ(rank.rank.value_or(-1), c.rank) << c.metadata;
    EXPECT_EQ(rank.world_size.value_or(-1), c.world_size) << c.metadata;
  }
}

TEST(RanksTest, MissingAndDuplicate) {
  EXPECT_THAT(Sentences({}), IsEmpty());
  EXPECT_THAT(Sentences({Json::object(), Ranked(1, 2), Ranked(0, 2)}), IsEmpty());
  EXPECT_THAT(Sentences({Ranked(0, 2)}), ElementsAre("rank 1 of 2 is missing"));
  EXPECT_THAT(Sentences({Ranked(4, 10), Ranked(1, 10)}), ElementsAre("ranks 0, 2, 3, 5-9 of 10 are missing"));
  EXPECT_THAT(Sentences({Ranked(0, 1), Ranked(0, 1)}), ElementsAre("rank 0 is there more than once"));
  EXPECT_THAT(Sentences({{{"rank", 7}}}), IsEmpty());  // the world size is unknown
  EXPECT_THAT(Sentences({Ranked(900'000, 1'000'000)}),
              ElementsAre("ranks 0-899999, 900001-999999 of 1000000 are missing"));
}

TEST(RanksTest, EachRunHasItsOwn) {
  Json a = Ranked(0, 2);
  a["label"] = "a";
  Json b = a;
  b["label"] = "b";
  EXPECT_THAT(Sentences({a, b}), ElementsAre("rank 1 of 2 is missing (a)", "rank 1 of 2 is missing (b)"));
}

TEST(RanksTest, ForksHaveTheirParentsRank) {
  Json fork = Ranked(0, 1);
  fork["role"] = "fork";
  EXPECT_THAT(Sentences({Ranked(0, 1), fork, fork}), IsEmpty());
  // Or they have their own ranks.
  Json other = Ranked(1, 2);
  other["role"] = "fork";
  EXPECT_THAT(Sentences({other, Ranked(0, 2)}), IsEmpty());
  EXPECT_THAT(Sentences({Json::object(), other}), ElementsAre("rank 0 of 2 is missing"));
}

struct Case {
  std::function<void(RunFacts*, CappedCounts*, std::vector<std::string>*)> change;
  std::vector<std::string> lines;
};

TEST(Completeness, IsYesOnlyWhereNothingIsMissing) {
  const std::string getters = "of property getters, left out by default (--include-getters records them)";
  const std::vector<Case> cases = {
      {[](auto, auto, auto) {}, {"yes: no call was dropped, lost or cut"}},
      {[](auto facts, auto, auto) { facts->getters = 1; }, {"yes, but for 1 call " + getters}},
      {[](auto facts, auto, auto) {
         facts->paused = true;
         facts->getters = 2;
       },
       {"yes, but for any calls made while tracing was paused, left out", "2 calls " + getters}},
      {[](auto facts, auto, auto) { facts->getters_unknown = true; },
       {"yes, but for any calls " + getters + "; not counted where a process did not end by itself"}},
      {[](auto, auto, auto ranks) { *ranks = {"rank 1 of 2 is missing"}; }, {"rank 1 of 2 is missing"}},
      {[](auto facts, auto, auto) { facts->stopped = {"the disk is full"}; },
       {"tracing stopped before the program's end: the disk is full"}},
      {[](auto facts, auto, auto) { facts->dropped = {{"the log was full", 5}, {"too long", 1}}; },
       {"5 calls dropped: the log was full", "1 call dropped: too long"}},
      {[](auto facts, auto, auto) { facts->lost_calls = 2; }, {"2 calls lost to damage of the log"}},
      {[](auto facts, auto, auto) { facts->lost_calls_exact = false; },
       {"an unknown number of calls lost to damage of the log"}},
      {[](auto facts, auto, auto) {
         facts->processes = 3;
         facts->unclosed = 1;
       },
       {"logs not closed, of processes killed or still running: 1 of 3"}},
      {[](auto facts, auto, auto) { facts->not_seen = {"1 process that was started as a new program: /bin/sh"}; },
       {"not seen: 1 process that was started as a new program: /bin/sh"}},
      {[](auto, auto capped, auto) { *capped = {.configs = 1, .calls = 2}; },
       {"long arguments of 2 calls in 1 config are cut"}},
      {[](auto facts, auto, auto) { facts->cut = {{"stacks", 3}}; }, {"cut: 3 stacks"}},
      {[](auto facts, auto, auto) {
         facts->getters = 7;
         facts->cut = {{"stacks", 3}};
         facts->stopped = {"why"};
       },
       {"tracing stopped before the program's end: why", "cut: 3 stacks", "7 calls " + getters}},
  };
  for (const Case& each : cases) {
    RunFacts facts;
    CappedCounts capped;
    std::vector<std::string> ranks;
    each.change(&facts, &capped, &ranks);
    EXPECT_EQ(DescribeCompleteness(facts, capped, ranks), each.lines);
  }
}

}  // namespace

}  // namespace torchtrace
