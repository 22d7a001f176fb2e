#include "serialize/trace/completeness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace torchtrace {
namespace {

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
       {"yes, but for any calls " + getters + "; not counted where a process died of a signal"}},
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
       {"long arguments of 2 calls in 1 config are not kept whole"}},
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
