#include "serialize/reports/top.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/model/config.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMs = 1'000'000;

// A reading of two ranks, a killed process and one that has ended.
class TopTest : public testing::Test {
 protected:
  TopTest() {
    reading_.elapsed_ns = 500 * kMs;
    const Config module =
        MakeConfig(3, "torch.nn.Linear", {}, {{"path", TextValue("fc")}, {"model", TextValue("Net_0")}});
    const Config add = MakeConfig(1, "torch.add", {IntValue(1)});
    const Config mm = MakeConfig(2, "aten::mm", {IntValue(2)});
    LiveProcess& first = Add("/out/log/main-10.ttlog", Running::kYes, 0);
    first.calls = 600;
    first.threads = 3;
    first.info.file_bytes = 4'200'000;
    first.apis = {Did(add, 400, 20 * kMs), Did(mm, 200, 60 * kMs)};
    const CallName linear = Name(module);
    first.modules = {{linear.module, 7, 30 * kMs}};
    first.inside = {
        {.number = 0, .name = "MainThread", .open_calls = 2, .identity = EncodeConfig(mm), .entered_ns = 1'000},
        {.number = 2, .name = "other", .open_calls = 1, .identity = EncodeConfig(add)}};
    first.until_ns = 1'000 + 30 * kMs;
    LiveProcess& second = Add("/out/log/main-11.ttlog", Running::kYes, 1);
    second.calls = 5;
    second.threads = 1;
    second.apis = {Did(add, 5, 20 * kMs)};
    second.inside = {{.number = 0, .name = "MainThread", .open_calls = 4}};
    LiveProcess& killed = Add("/out/log/worker-12.ttlog", Running::kNo, {});
    killed.inside = {{.number = 0, .name = "", .open_calls = 1, .identity = EncodeConfig(add), .entered_ns = 5}};
    killed.until_ns = 5;
    LiveProcess& ended = Add("/out/log/fork-13.ttlog", Running::kNo, {});
    ended.info.closed = true;
    ended.info.known.exit_code = 3;
    ended.info.file_bytes = 99'000'000;
  }

  LiveProcess& Add(const std::string& path, Running running, std::optional<int64_t> rank) {
    LiveProcess& process = reading_.processes.emplace_back();
    process.info.path = path;
    process.info.known.ranked.rank = rank;
    if (rank.has_value()) process.info.known.name = absl::StrCat("rank ", *rank, " (1", *rank, ")");
    process.running = running;
    return process;
  }
  CallName Name(const Config& config) { return names_.Of(EncodeConfig(config)); }
  Activity Did(const Config& config, uint64_t calls, uint64_t self_ns) { return {Name(config).api, calls, self_ns}; }
  std::string Screen(size_t height = 24) {
    const std::vector<std::string> lines = TopLines(reading_, names_, options_, height);
    EXPECT_LE(lines.size(), height);
    return absl::StrJoin(lines, "\n") + "\n";
  }

  LiveReading reading_;
  LiveNames names_;
  TopOptions options_{.title = "out"};
};

TEST_F(TopTest, Text) {
  EXPECT_EQ(TopText(reading_, names_, options_),
            "out: 2 running, 1 ended, 1 killed: worker-12; 1.21 k calls/s\n"
            "\n"
            "process      calls/s  threads      log  open for  open call\n"
            "rank 0 (10)   1.20 k        3  4.20 MB   30.0 ms  L2 aten::mm(2)\n"
            "rank 1 (11)       10        1      0 B         -  ...\n"
            "worker-12          0        0      0 B         -  killed in L1 torch.add(1)\n"
            "fork-13            0        0  99.0 MB         -  exit code 3\n"
            "\n"
            "calls/s  self time  self %  API\n"
            "    400    60.0 ms  60.00%  L2 aten::mm\n"
            "    810    40.0 ms  40.00%  L1 torch.add\n"
            "\n"
            "calls/s  self time   self %  module\n"
            "     14    30.0 ms  100.00%  fc (Linear)\n");
}

TEST_F(TopTest, TheFirstReadingCountsNothing) {
  reading_.elapsed_ns = 0;
  for (LiveProcess& process : reading_.processes) process.apis.clear();
  const std::string text = TopText(reading_, names_, options_);
  EXPECT_THAT(text, HasSubstr("out: 2 running, 1 ended, 1 killed: worker-12\n"));
  EXPECT_THAT(text, HasSubstr("rank 0 (10)        -        3"));
  EXPECT_THAT(text, Not(HasSubstr("API")));
}

// What is at that column of the rows below a title, up to two spaces.
std::string RowsBelow(std::string_view text, std::string_view title, size_t column) {
  std::string rows;
  size_t at = text.find('\n', text.find(title)) + 1;
  for (size_t end; (end = text.find('\n', at)) != at && end != std::string_view::npos; at = end + 1) {
    const std::string_view line = text.substr(at, end - at);
    absl::StrAppend(&rows, rows.empty() ? "" : ", ",
                    std::string(line.substr(column, line.find("  ", column) - column)));
  }
  return rows;
}

TEST_F(TopTest, Sorts) {
  const auto processes = [this](TopProcessSort sort) {
    options_.processes_by = sort;
    return RowsBelow(Screen(), "process", 0);
  };
  // Those that have ended come last.
  EXPECT_EQ(processes(TopProcessSort::kRank), "rank 0 (10), rank 1 (11), worker-12, fork-13");
  reading_.processes[1].calls = 1000;
  EXPECT_EQ(processes(TopProcessSort::kCalls), "rank 1 (11), rank 0 (10), worker-12, fork-13");
  reading_.processes[2].info.file_bytes = 5'000'000;
  EXPECT_EQ(processes(TopProcessSort::kLog), "worker-12, rank 0 (10), rank 1 (11), fork-13");
  EXPECT_EQ(processes(TopProcessSort::kOpen), "rank 0 (10), rank 1 (11), worker-12, fork-13");
  const auto calls = [this](TopCallSort sort) {
    options_.calls_by = sort;
    return RowsBelow(Screen(), "calls/s  self", 31);
  };
  EXPECT_EQ(calls(TopCallSort::kSelf), "aten::mm, torch.add");
  EXPECT_EQ(calls(TopCallSort::kCalls), "torch.add, aten::mm");
  EXPECT_EQ(calls(TopCallSort::kName), "torch.add, aten::mm");
}

TEST_F(TopTest, FiltersProcessesOrElseCalls) {
  options_.filter = "rank 1";
  std::string screen = Screen();
  EXPECT_EQ(RowsBelow(screen, "process", 0), "rank 1 (11)");
  EXPECT_THAT(screen, HasSubstr("     10    20.0 ms  100.00%  L1 torch.add\n"));
  EXPECT_THAT(screen, HasSubstr("1.21 k calls/s"));
  options_.filter = "add";
  screen = Screen();
  EXPECT_EQ(RowsBelow(screen, "process", 0), "rank 0 (10), rank 1 (11), worker-12, fork-13");
  EXPECT_EQ(RowsBelow(screen, "calls/s  self", 31), "torch.add");
  EXPECT_THAT(screen, HasSubstr("40.00%"));
  options_.filter = "nothing";
  EXPECT_EQ(RowsBelow(Screen(), "calls/s  self", 31), "");
}

TEST_F(TopTest, ShowsModulesInstead) {
  options_.modules = true;
  EXPECT_THAT(Screen(), HasSubstr("100.00%  fc (Linear)\n"));
  EXPECT_THAT(Screen(), Not(HasSubstr("torch.add\n")));
  // With several models each says its own.
  Name(MakeConfig(3, "torch.nn.ReLU", {}, {{"path", TextValue("fc")}, {"model", TextValue("Dis_0")}}));
  EXPECT_THAT(Screen(), HasSubstr("100.00%  Net_0.fc (Linear)\n"));
}

TEST_F(TopTest, FitsOnAnyScreen) {
  for (int i = 0; i < 100; ++i) {
    Add(absl::StrCat("/out/log/fork-", 100 + i, ".ttlog"), Running::kYes, 2 + i);
    reading_.processes[0].apis.push_back(Did(MakeConfig(1, absl::StrCat("torch.a_long_name_of_a_function_", i)), 1, 1));
  }
  options_.color = true;
  for (const size_t width : {20, 40, 80, 200}) {
    options_.width = width;
    for (size_t height = 0; height < 60; ++height) {
      for (std::string line : TopLines(reading_, names_, options_, height)) {
        for (const std::string_view color : {kBold, kReset}) {
          if (const size_t at = line.find(color); at != std::string::npos) line.erase(at, color.size());
        }
        EXPECT_LE(line.size(), width) << line;
      }
      Screen(height);
    }
  }
  const std::string screen = Screen(30);
  EXPECT_THAT(screen, HasSubstr("\n... and 93 more\n"));
  EXPECT_EQ(std::count(screen.begin(), screen.end(), '\n'), 30);
}

TEST_F(TopTest, NamesCannotMoveTheCursor) {
  reading_.processes[0].info.known.name = "a\x1b[2Jb";
  reading_.processes[0].apis = {Did(MakeConfig(1, "bad\x1b[H\nname"), 1, 1)};
  reading_.processes[0].inside[0].identity = EncodeConfig(MakeConfig(1, "f", {TextValue("\x1b]0;x\x07\n")}));
  options_.title = "out\x1b[1A";
  for (const std::string& text : {Screen(), TopText(reading_, names_, options_)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  }
}

TEST_F(TopTest, Json) {
  reading_.order = "paused";
  const nlohmann::ordered_json json = TopJson(reading_, names_);
  EXPECT_EQ(json["order"], "paused");
  EXPECT_THAT(TopText(reading_, names_, options_), HasSubstr("; paused by torchtrace ctl"));
  EXPECT_EQ(json["processes"].size(), 4u);
  const nlohmann::ordered_json& first = json["processes"][0];
  EXPECT_EQ(first["rank"], 0);
  EXPECT_EQ(first["running"], true);
  EXPECT_EQ(first["calls_per_second"], 1200.0);
  EXPECT_EQ(first["open"][0]["config"], "aten::mm(2)");
  EXPECT_EQ(first["open"][0]["open_ns"], 30 * kMs);
  EXPECT_FALSE(json["processes"][1]["open"][0].contains("api"));
  EXPECT_EQ(json["processes"][2]["running"], false);
  EXPECT_TRUE(json["processes"][2]["open"][0]["open_ns"].is_null());
  EXPECT_EQ(json["processes"][3]["ended"], "exit code 3");
  EXPECT_EQ(json["apis"][1],
            nlohmann::ordered_json({{"level", 1}, {"api", "torch.add"}, {"calls", 405}, {"self_ns", 40 * kMs}}));
  EXPECT_EQ(json["modules"][0]["module"], "fc (Linear)");
}

TEST_F(TopTest, EndsWithTheLastProcess) {
  EXPECT_TRUE(MayGoOn(reading_));
  reading_.processes.erase(reading_.processes.begin(), reading_.processes.begin() + 2);
  EXPECT_FALSE(MayGoOn(reading_));
  reading_.processes[0].running = Running::kUnknown;
  EXPECT_TRUE(MayGoOn(reading_));
  EXPECT_TRUE(MayGoOn({}));
}

}  // namespace
}  // namespace torchtrace
