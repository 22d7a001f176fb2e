#include "serialize/log/log_metadata.h"

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/log/log_writer.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// The metadata of a log with these frames; frames that start with '~' stay open.
json Merge(const std::vector<std::string>& frames, Damage* damage) {
  const std::string path = TestFolder() + "/a.ttlog";
  const auto writer = LogWriter::Create(path).value();
  for (const std::string& text : frames) {
    if (!text.starts_with('~')) {
      EXPECT_TRUE(writer->AppendMetadata(text).ok());
      continue;
    }
    const Frame frame = writer->Reserve(FrameType::kMetadata, 1000).value();
    std::memcpy(frame.payload(), text.data() + 1, text.size() - 1);
    frame.header->committed_bytes = static_cast<uint32_t>(text.size() - 1);
  }
  return *ReadMetadata(*LogReader::Open(path).value(), 0, damage);
}

TEST(LogMetadataTest, FramesAreMerged) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const struct {
    std::vector<std::string> frames;
    std::string merged;
    std::string damage;
  } kCases[] = {
      {{}, "{}", ""},
      {{R"({"a":1,"b":{"c":2}})", R"({"b":{"d":3}})"}, R"({"a":1,"b":{"c":2,"d":3}})", ""},
      {{R"({"a":1})", R"({"a":null,"b":4})"}, R"({"b":4})", ""},
      {{"~", R"({"a":1})"}, R"({"a":1})", ""},  // reserved for the end, which was never written
      {{R"({"a":1})", R"(~{"b":2})"}, R"({"a":1,"b":2})", ""},
      {{R"({"a":1})", R"(~{"b":)"}, R"({"a":1})", "holds no JSON object"},
      {{R"({"a":1})", "[1,2]", R"({"b":2})"},
       R"({"a":1,"b":2})",
       "the metadata frame at byte 8192 holds no JSON object"},
      {{absl::StrCat(R"({"a":)", deep, "}"), R"({"b":2})"}, R"({"b":2})", "holds no JSON object"},
      {{"{\"a\":\"\xff\"}", R"({"b":2})"}, R"({"b":2})", "holds no JSON object"},
  };
  for (const auto& c : kCases) {
    Damage damage;
    EXPECT_EQ(Merge(c.frames, &damage), json::parse(c.merged));
    if (c.damage.empty()) {
      EXPECT_THAT(damage.sentences, IsEmpty());
      EXPECT_EQ(damage.lost_bytes, 0u);
    } else {
      EXPECT_THAT(damage.sentences, ElementsAre(HasSubstr(c.damage)));
      EXPECT_GT(damage.lost_bytes, 0u);
    }
  }
}

// A program with that many threads writes such an end.
TEST(LogMetadataTest, ALongListTakesNoLongTime) {
  constexpr size_t kItems = 300'000;
  std::string list;
  for (size_t i = 0; i < kItems; ++i) list += i == 0 ? "{}" : ",{}";
  Damage damage;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Merge({absl::StrCat(R"({"a":[)", list, "]}")}, &damage)["a"].size(), kItems);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_THAT(damage.sentences, IsEmpty());
}

TEST(LogMetadataTest, BracketsInStringsAreNoNesting) {
  const std::string brackets(100, '[');
  Damage damage;
  EXPECT_EQ(Merge({absl::StrCat(R"({"a":"\"\\)", brackets, R"(","b":"\\"})")}, &damage),
            (json{{"a", "\"\\" + brackets}, {"b", "\\"}}));
  EXPECT_THAT(damage.sentences, IsEmpty());
}

TEST(LogClockTest, Nanoseconds) {
  const std::string clock = R"("clock":{"unit_ns":4.0,"origin_units":1000,"origin_monotonic_ns":5000)";
  const std::string second = R"("end":{"units":251001000,"monotonic_ns":1004005000})";  // slightly more than 4 ns
  const struct {
    std::string metadata;
    uint64_t units;
    int64_t ns;
  } kCases[] = {
      {"{}", 17, 17},
      {"{" + clock + "}}", 1000, 5000},
      {"{" + clock + "}}", 1250, 6000},
      {"{" + clock + "}}", 750, 4000},  // before the log was created
      {"{" + clock + "}," + second + "}", 251001000, 1004005000},
      {"{" + clock + "}," + second + "}", 1000, 5000},
      // However far off the first measurement was.
      {"{" + clock + R"(},"end":{"units":10001000,"monotonic_ns":20005000}})", 1500, 6000},
      {"{" + clock + R"(},"clock_again":{"units":10001000,"monotonic_ns":20005000}})", 1500, 6000},
      {"{" + clock + R"(},"clock_again":{"units":10001000,"monotonic_ns":20005000},)" + second + "}", 251001000,
       1004005000},
      {"{" + clock + R"(},"clock_again":{"units":10001000,"monotonic_ns":20005000},"end":{"exit_code":1}})", 1500,
       6000},
      // Too short to be more accurate, or invalid.
      {"{" + clock + R"(},"end":{"units":1010,"monotonic_ns":5080}})", 1250, 6000},
      {"{" + clock + R"(},"end":{"units":1001,"monotonic_ns":5000000000}})", 1250, 6000},
      {"{" + clock + R"(},"clock_again":{"units":500,"monotonic_ns":5000000000}})", 1250, 6000},
      {"{" + clock + R"(},"clock_again":[1]})", 1250, 6000},
      {"{" + clock + R"(},"end":{"units":-5,"monotonic_ns":"x"}})", 1250, 6000},
      {"{" + clock + R"(},"end":7})", 1250, 6000},
      {R"({"clock":{"unit_ns":0,"origin_units":1,"origin_monotonic_ns":2}})", 17, 17},
      {R"({"clock":{"unit_ns":1e300,"origin_units":1,"origin_monotonic_ns":2}})", 17, 17},
      {R"({"clock":{"unit_ns":4.0,"origin_units":-1,"origin_monotonic_ns":2}})", 17, 17},
      {R"({"clock":{"unit_ns":4.0,"origin_units":1,"origin_monotonic_ns":18446744073709551615}})", 17, 17},
      {R"({"clock":[]})", 17, 17},
      // A damaged time is limited to a far one.
      {"{" + clock + "}}", uint64_t{1} << 62, 2'000'000'000'000'005'000},
      {"{" + clock + "}}", (uint64_t{1} << 63) + 5000, -1'999'999'999'999'995'000},
  };
  for (const auto& c : kCases) {
    const json metadata = json::parse(c.metadata, nullptr, false);
    ASSERT_FALSE(metadata.is_discarded()) << c.metadata;
    EXPECT_EQ(LogClock(metadata).Nanoseconds(c.units), c.ns) << c.metadata << " at " << c.units;
  }
}

TEST(LogClockTest, TimeOfDay) {
  const json metadata = json::parse(
      R"({"clock":{"unit_ns":4,"origin_units":1,"origin_monotonic_ns":5000,"origin_realtime_ns":1700000000000000000}})");
  EXPECT_EQ(LogClock(metadata).realtime_offset_ns(), 1'700'000'000'000'000'000 - 5000);
  EXPECT_EQ(LogClock(json::object()).realtime_offset_ns(), 0);
}

TEST(LogEndTest, LastWords) {
  EXPECT_FALSE(ReadLogEnd(json::object()).present);
  EXPECT_FALSE(ReadLogEnd(json{{"end", 3}}).present);
  const LogEnd killed = ReadLogEnd(json::parse(R"({"end":{"signal":15}})"));
  EXPECT_TRUE(killed.present);
  EXPECT_FALSE(killed.has_threads);
  const LogEnd end = ReadLogEnd(json::parse(R"({"end":{"exit_code":0,"dropped":{"recursion":4,"bad":-1},
      "threads":[{"number":0,"calls":7,"getters":1},{"number":2,"calls":9},{"number":3},"x"]}})"));
  EXPECT_TRUE(end.has_threads);
  EXPECT_THAT(end.thread_calls, ElementsAre(Pair(0, 7), Pair(2, 9)));
  EXPECT_THAT(end.dropped, ElementsAre(Pair("recursion", 4)));
}

using ::testing::ElementsAre;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kDay = 86'400 * kSecond;

// A process of `host` that started `origin_ns` after the machine did.
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

// The clock restarted: the later process has the smaller time.
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

// With boot ids there is no guessing, even if a clock was set or the machine booted twice within seconds.
TEST(ProcessOrderTest, BootIds) {
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1, 5 * kDay)), Booted("x", At("a", 2, 4 * kDay))}).clock,
            ProcessOrder::kMonotonic);
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), Booted("y", At("a", 2, 20'000 * kDay + kSecond))}).clock,
            ProcessOrder::kTimeOfDay);
  // Containers on one machine.
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), Booted("x", At("b", 2))}).clock, ProcessOrder::kMonotonic);
  // A container with its own clock.
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1, 5 * kDay)), Booted("x", At("b", 2, 4 * kDay))}).clock,
            ProcessOrder::kTimeOfDay);
  // A log without a boot id.
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), At("a", 2)}).clock, ProcessOrder::kMonotonic);
  EXPECT_EQ(OrderProcesses({Booted("x", At("a", 1)), At("b", 2)}).clock, ProcessOrder::kTimeOfDay);
}

// CLOCK_MONOTONIC alone can't be compared between machines.
TEST(ProcessOrderTest, MachineWithoutATimeOfDay) {
  const ProcessOrder order = OrderProcesses({At("a", 10), At("b", 20, 0), At("c", 5)});
  EXPECT_THAT(order.groups, ElementsAre(ElementsAre(2, 0), ElementsAre(1)));
}

}  // namespace

}  // namespace torchtrace
