#include "serialize/report/report.h"

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::Gt;
using testing::HasSubstr;
using testing::Le;
using testing::Lt;

struct Page {
  std::string text;
  json head;
};

Page PageOf(const std::vector<StatsTrace>& traces, const ReportOptions& options = {}) {
  std::ostringstream out;
  std::vector<std::string> notes;
  const absl::Status written = WriteReportPage(traces, options, &out, &notes);
  EXPECT_TRUE(written.ok()) << written;
  Page page;
  page.text = out.str();
  const std::string begin = "id=\"head\">";
  const size_t from = page.text.find(begin) + begin.size();
  page.head = json::parse(page.text.substr(from, page.text.find("</script>", from) - from));
  return page;
}

// Calls `configs` of one API, each a little longer.
void AddCalls(int configs, FakeTrace* trace) {
  for (int i = 0; i < configs; ++i) {
    // Texts that don't compress.
    trace->Enter(MakeConfig(1, "torch.add", {IntValue(int64_t{i} * 2'654'435'761 % 4'294'967'296)}));
    trace->Wait(1000 + i);
    trace->Leave();
  }
}

TEST(Report, AnEmptyTraceHasAPage) {
  FakeTrace trace;
  const Page page = PageOf({{&trace, "t"}});
  EXPECT_EQ(page.head["traces"][0]["name"], "t");
  EXPECT_EQ(page.head["traces"][0]["calls"], 0);
  EXPECT_EQ(page.head["tables"], json::object());
}

TEST(Report, TheLargestTablesGiveWayToTheSizeOfAPage) {
  FakeTrace trace;
  AddCalls(5'000, &trace);
  const Page whole = PageOf({{&trace, "t"}});
  EXPECT_EQ(whole.head["tables"]["configs"]["rows"], 5'000);
  EXPECT_EQ(whole.head["left_out"], json::array());
  ReportOptions options;
  options.most_bytes = whole.text.size() * 9 / 10;
  const Page page = PageOf({{&trace, "t"}}, options);
  EXPECT_THAT(page.text.size(), Le(options.most_bytes));
  EXPECT_THAT(page.text.size(), Gt(options.most_bytes * 9 / 10));
  const json& configs = page.head["tables"]["configs"];
  EXPECT_THAT(configs["rows"].get<int>(), Lt(5'000));
  EXPECT_EQ(configs["rows"].get<int>() + configs["left_out"]["rows"].get<int>(), 5'000);
  EXPECT_EQ(configs["left_out"]["rows"], configs["left_out"]["calls"]);
  // The shortest ones: each took 1010 + i ns.
  const auto left = configs["left_out"]["rows"].get<int64_t>();
  EXPECT_EQ(configs["left_out"]["self_ns"].get<int64_t>(), left * 1010 + left * (left - 1) / 2);
  EXPECT_EQ(page.head["left_out"][0]["what"], "config");
  EXPECT_EQ(page.head["tables"]["apis"]["rows"], 1);
}

TEST(Report, TwoTracesHaveTheRowsOfBoth) {
  FakeTrace a, b;
  a.Call(MakeConfig(1, "torch.abs"));
  a.Call(MakeConfig(1, "torch.add"));
  b.Call(MakeConfig(1, "torch.add"));
  b.Call(MakeConfig(2, "aten::sin"));
  const Page page = PageOf({{&a, "a"}, {&b, "b"}});
  EXPECT_EQ(page.head["tables"]["apis"]["rows"], 3);
  EXPECT_EQ(page.head["traces"][1]["calls"], 2);
  EXPECT_EQ(page.head["timeline"]["tracks"].size(), 2U);
  EXPECT_EQ(page.head["timeline"]["tracks"][1]["trace"], 1);
}

TEST(Report, WhatIsMissingIsTold) {
  FakeTrace trace;
  trace.process(0).damage.lost_calls = 3;
  trace.process(0).damage.sentences = {"a frame is damaged"};
  trace.Call(MakeConfig(1, "torch.add"));
  trace.Enter(MakeConfig(1, "torch.mul"));
  const json summary = PageOf({{&trace, "t"}}).head["traces"][0];
  EXPECT_EQ(summary["complete"], false);
  std::string notes;
  for (const json& note : summary["notes"]) {
    absl::StrAppend(&notes, note["kind"].get<std::string>(), ": ", note["text"].get<std::string>(), "\n");
  }
  EXPECT_THAT(notes, HasSubstr("loss: 3 calls lost"));
  EXPECT_THAT(notes, HasSubstr("loss: a frame is damaged"));
}

TEST(Report, CoverageIsWhatItsCallerWrites) {
  FakeTrace trace;
  trace.Call(MakeConfig(1, "torch.add"));
  ReportOptions options;
  options.coverage = [](const std::vector<StatsTrace>&, std::ostream* out) {
    *out << R"({"list": "l", "total": 2, "called": 1, "namespaces": [{"namespace": "torch", "known": 2, "called": 1}],
                "apis": [{"api": "torch.add", "called": true, "calls": 1}, {"api": "torch.abs", "called": false}]})";
    return absl::OkStatus();
  };
  const json head = PageOf({{&trace, "t"}}, options).head;
  EXPECT_EQ(head["coverage"]["called"], 1);
  EXPECT_EQ(head["tables"]["coverage"]["rows"], 2);
  EXPECT_EQ(head["facets"]["namespace"]["values"], json({"torch"}));
}

}  // namespace
}  // namespace torchtrace
