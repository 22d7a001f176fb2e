#include "serialize/log/process_order.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;

// A process of `host` that started so long after the machine did.
ProcessClock At(const std::string& host, int64_t origin_ns, int64_t machine_started_ns = 20'000 * kDay) {
  return {true, host, "", origin_ns, machine_started_ns};
}

TEST(ProcessOrderTest, OneMachineIsOrderedByItsClock) {
  const ProcessOrder order = OrderProcesses({At("a", 30), At("a", 10, 20'000 * kDay + 3 * kSecond), At("a", 20)});
  EXPECT_EQ(order.clock, ProcessOrder::kMonotonic);
  EXPECT_THAT(order.groups, ElementsAre(ElementsAre(1, 2, 0)));
  EXPECT_THAT(order.shift_ns, ElementsAre(0, 0, 0));
}

TEST(ProcessOrderTest, EqualStartsKeepTheOrderGiven) {
  EXPECT_THAT(OrderProcesses({At("a", 10), At("a", 5), At("a", 10), At("a", 5)}).groups,
              ElementsAre(ElementsAre(1, 3, 0, 2)));
}

TEST(ProcessOrderTest, MachinesAreOrderedByTheTimeOfDay) {
  const ProcessOrder order = OrderProcesses({At("a", 10, 5 * kDay), At("b", 20, 4 * kDay)});
  EXPECT_EQ(order.clock, ProcessOrder::kTimeOfDay);
  EXPECT_THAT(order.groups, ElementsAre(ElementsAre(1, 0)));
  EXPECT_THAT(order.shift_ns, ElementsAre(5 * kDay, 4 * kDay));
}

// The clock began anew: what came later has the smaller time.
TEST(ProcessOrderTest, MachineThatWasStartedAnew) {
  const ProcessOrder order = OrderProcesses({At("a", 10 * kSecond, 5 * kDay), At("a", 1000 * kSecond, 4 * kDay)});
  EXPECT_EQ(order.clock, ProcessOrder::kTimeOfDay);
  EXPECT_THAT(order.groups, ElementsAre(ElementsAre(1, 0)));
}

TEST(ProcessOrderTest, WithoutClocksTheOrderGivenHolds) {
  const ProcessClock none;
  const ProcessOrder order = OrderProcesses({none, At("a", 30), none, At("a", 10), none});
  EXPECT_THAT(order.groups, ElementsAre(ElementsAre(0), ElementsAre(3, 1), ElementsAre(2), ElementsAre(4)));
  EXPECT_EQ(OrderProcesses({none, none}).clock, ProcessOrder::kNone);
  EXPECT_THAT(OrderProcesses({none, none}).groups, ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_TRUE(OrderProcesses({}).groups.empty());
}

ProcessClock Booted(const std::string& boot_id, ProcessClock clock) {
  clock.boot_id = boot_id;
  return clock;
}

// What a boot id tells needs no guess: neither a clock that was set, nor two starts within seconds.
TEST(ProcessOrderTest, BootIds) {
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1, 5 * kDay)), Booted("x", At("a", 2, 4 * kDay))}).clock,
            ProcessOrder::kMonotonic);
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), Booted("y", At("a", 2, 20'000 * kDay + kSecond))}).clock,
            ProcessOrder::kTimeOfDay);
  // Containers of one machine.
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), Booted("x", At("b", 2))}).clock, ProcessOrder::kMonotonic);
  // One that has a clock of its own.
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1, 5 * kDay)), Booted("x", At("b", 2, 4 * kDay))}).clock,
            ProcessOrder::kTimeOfDay);
  // A log that doesn't tell.
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), At("a", 2)}).clock, ProcessOrder::kMonotonic);
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), At("b", 2)}).clock, ProcessOrder::kTimeOfDay);
}

// CLOCK_MONOTONIC alone says nothing to another machine's.
TEST(ProcessOrderTest, MachineWithoutATimeOfDay) {
  const ProcessOrder order = OrderProcesses({At("a", 10), At("b", 20, 0), At("c", 5)});
  EXPECT_THAT(order.groups, ElementsAre(ElementsAre(2, 0), ElementsAre(1)));
}

}  // namespace
}  // namespace torchtrace
