#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/diff/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct SequenceReport {
  bool different;
  std::string text;
};

SequenceReport SequenceReportOf(Trace* a, Trace* b, const DiffOptions& options = {},
                                const SequenceOptions& sequence = {}) {
  std::ostringstream out;
  const absl::StatusOr<bool> different = WriteSequenceDiff(a, b, options, sequence, &out);
  EXPECT_TRUE(different.ok()) << different.status();
  return {different.ok() && *different, out.str()};
}

json SequenceJsonOf(Trace* a, Trace* b, const SequenceOptions& sequence = {}, DiffOptions options = {}) {
  options.format = DiffFormat::kJson;
  const SequenceReport report = SequenceReportOf(a, b, options, sequence);
  json parsed = json::parse(report.text);
  EXPECT_EQ(parsed["different"], report.different);
  return parsed;
}

Config Linear(int64_t batch) { return MakeConfig(1, "torch.linear", {TensorValue({batch, 4})}); }
Config Mm(int64_t batch) { return MakeConfig(2, "aten::mm", {TensorValue({batch, 4})}); }
Config Named(const std::string& api, int level = 1) { return MakeConfig(level, api); }

// Calls that are all different, in one place.
void Count(FakeTrace* trace, int first, int last) {
  for (int i = first; i < last; ++i) trace->Call(MakeConfig(1, "f", {TextValue(std::to_string(i))}));
}

TEST(SequenceReport, NothingToSay) {
  FakeTrace a, b, empty;
  AddExampleCalls(&a);
  AddExampleCalls(&b);
  const SequenceReport report = SequenceReportOf(&a, &b);
  EXPECT_FALSE(report.different);
  EXPECT_EQ(report.text, "");
  EXPECT_FALSE(SequenceReportOf(&empty, &empty).different);
  DiffOptions summary;
  summary.summary = true;
  EXPECT_EQ(SequenceReportOf(&a, &b, summary).text,
            "--- A  4 calls\n"
            "+++ B  4 calls\n"
            "4 the same, 0 hunks; 0 of 1 sequence differs\n");
}

TEST(SequenceReport, RemovedAddedAndChanged) {
  FakeTrace a, b;
  for (FakeTrace* trace : {&a, &b}) Count(trace, 0, 10);
  a.Call(Named("torch.gelu"));
  for (FakeTrace* trace : {&a, &b}) Count(trace, 10, 12);
  a.Call(Linear(8));
  b.Call(Linear(16));
  for (FakeTrace* trace : {&a, &b}) Count(trace, 12, 30);
  b.Call(Named("torch.relu"));
  for (FakeTrace* trace : {&a, &b}) Count(trace, 30, 32);
  EXPECT_EQ(SequenceReportOf(&a, &b).text,
            "--- A  34 calls\n"
            "+++ B  34 calls\n"
            "1 removed, 1 added, 1 changed, 32 the same, 2 hunks; 1 of 1 sequence differs\n"
            "\n"
            "first divergence: call 10 of A, call 10 of B, main-0, thread 0 (thread0), level 1\n"
            "\n"
            "main-0, thread 0 (thread0), level 1: 1 removed, 1 added, 1 changed, 32 the same\n"
            "@@ -7,10 +7,9 @@\n"
            "   7  7  f(\"7\")\n"
            "   8  8  f(\"8\")\n"
            "   9  9  f(\"9\")\n"
            "- 10     torch.gelu()\n"
            "  11 10  f(\"10\")\n"
            "  12 11  f(\"11\")\n"
            "~ 13 12  torch.linear(Tensor([8 -> 16, 4], \"float32\"))\n"
            "  14 13  f(\"12\")\n"
            "  15 14  f(\"13\")\n"
            "  16 15  f(\"14\")\n"
            "@@ -29,5 +28,6 @@\n"
            "  29 28  f(\"27\")\n"
            "  30 29  f(\"28\")\n"
            "  31 30  f(\"29\")\n"
            "+    31  torch.relu()\n"
            "  32 32  f(\"30\")\n"
            "  33 33  f(\"31\")\n");
}

TEST(SequenceReport, Context) {
  FakeTrace a, b;
  for (FakeTrace* trace : {&a, &b}) Count(trace, 0, 4);
  a.Call(Named("gone"));
  for (FakeTrace* trace : {&a, &b}) Count(trace, 4, 7);
  a.Call(Named("gone"));
  for (FakeTrace* trace : {&a, &b}) Count(trace, 7, 9);
  const auto hunks = [&](uint64_t context) {
    SequenceOptions options;
    options.context = context;
    const json report = SequenceJsonOf(&a, &b, options);
    std::string marks;
    for (const json& hunk : report["sequences"][0]["hunks"]) {
      for (const json& line : hunk["lines"]) marks += line["change"] == "same" ? '=' : '-';
      marks += '|';
      EXPECT_EQ(hunk["a_count"], hunk["lines"].size());
    }
    return marks;
  };
  EXPECT_EQ(hunks(0), "-|-|");
  EXPECT_EQ(hunks(1), "=-=|=-=|");
  EXPECT_EQ(hunks(2), "==-===-==|");
  EXPECT_EQ(hunks(100), "====-===-==|");
  EXPECT_EQ(hunks(UINT64_MAX), "====-===-==|");
}

// A level-2 call is shown with the calls around it, and each level is aligned separately.
TEST(SequenceReport, Nesting) {
  FakeTrace a, b;
  for (FakeTrace* trace : {&a, &b}) {
    trace->Call(Named("torch.ones"));
    trace->Enter(Named("torch.outer"));
    trace->Enter(Named("torch.inner"));
    trace->Call(Mm(4));
    if (trace == &b) trace->Call(Named("aten::add", 2));
    trace->Leave();
    trace->Leave();
    trace->Call(Mm(5));
  }
  const SequenceReport report = SequenceReportOf(&a, &b);
  EXPECT_TRUE(report.different);
  EXPECT_EQ(report.text,
            "--- A  5 calls\n"
            "+++ B  6 calls\n"
            "1 added, 5 the same, 1 hunk; 1 of 2 sequences differ\n"
            "\n"
            "first divergence: call 4 of A, call 4 of B, main-0, thread 0 (thread0), level 2\n"
            "  inside 1 torch.outer()\n"
            "    inside 2 torch.inner()\n"
            "\n"
            "main-0, thread 0 (thread0), level 2: 1 added, 2 the same\n"
            "@@ -3,2 +3,3 @@ inside 2 torch.inner()\n"
            "  3 3      aten::mm(Tensor([4, 4], \"float32\"))\n"
            "+   4      aten::add()\n"
            "  4 5  aten::mm(Tensor([5, 4], \"float32\"))\n");
  const json parsed = SequenceJsonOf(&a, &b);
  const json outer = {{"call", 1}, {"config", "torch.outer()"}}, inner = {{"call", 2}, {"config", "torch.inner()"}};
  EXPECT_EQ(parsed["first_divergence"]["inside"], json::array({outer, inner}));
  EXPECT_EQ(parsed["first_divergence"]["inside_of"], "b");
  EXPECT_EQ(parsed["sequences"].size(), 2u);
  EXPECT_EQ(parsed["sequences"][0]["level"], 1);
  EXPECT_FALSE(parsed["sequences"][0].contains("hunks"));
}

TEST(SequenceReport, LevelsTogether) {
  FakeTrace a, b;
  for (FakeTrace* trace : {&a, &b}) {
    trace->Enter(Linear(trace == &a ? 8 : 16));
    trace->Call(Mm(trace == &a ? 8 : 16));
    trace->Leave();
  }
  SequenceOptions together;
  together.levels_together = true;
  EXPECT_THAT(SequenceReportOf(&a, &b, {}, together).text,
              HasSubstr("main-0, thread 0 (thread0): 2 changed, 0 the same\n"
                        "@@ -0,2 +0,2 @@\n"
                        "~ 0 0  torch.linear(Tensor([8 -> 16, 4], \"float32\"))\n"
                        "~ 1 1    aten::mm(Tensor([8 -> 16, 4], \"float32\"))\n"));
  EXPECT_EQ(SequenceJsonOf(&a, &b, together)["sequences"].size(), 1u);
  EXPECT_EQ(SequenceJsonOf(&a, &b)["sequences"].size(), 2u);
}

// The first divergence of all sequences is the first in order of calls.
TEST(SequenceReport, FirstDivergenceOfAll) {
  FakeTrace a, b;
  for (FakeTrace* trace : {&a, &b}) {
    trace->Call(Named("aten::x", 2));
    if (trace == &b) trace->Call(Named("aten::y", 2));
    trace->Call(Named("torch.x"));
    if (trace == &a) trace->Call(Named("torch.y"));
  }
  for (uint64_t context : {0, 3}) {
    SequenceOptions options;
    options.context = context;
    const json report = SequenceJsonOf(&a, &b, options);
    EXPECT_EQ(report["first_divergence"]["sequence"], 1);
    EXPECT_EQ(report["first_divergence"]["b_call"], 1);
  }
}

TEST(SequenceReport, CapsAreTold) {
  FakeTrace a, b;
  for (int i = 0; i < 10; ++i) {
    Count(&a, 100 * i, 100 * i + 10);
    Count(&b, 100 * i, 100 * i + 10);
    for (int n = 0; n < 50; ++n) b.Call(Named("more"));
  }
  SequenceOptions options;
  options.max_hunks = 2;
  options.max_calls = 5;
  const std::string text = SequenceReportOf(&a, &b, {}, options).text;
  EXPECT_THAT(text, HasSubstr("500 added, 100 the same, 10 hunks"));
  EXPECT_THAT(text, HasSubstr("... and 48 lines more in this hunk\n"));
  EXPECT_THAT(text, HasSubstr("... and 8 hunks more (--max-hunks)\n"));
  const json report = SequenceJsonOf(&a, &b, options);
  ASSERT_EQ(report["sequences"][0]["hunks"].size(), 2u);
  EXPECT_EQ(report["sequences"][0]["hunks_found"], 10);
  EXPECT_EQ(report["sequences"][0]["hunks"][0]["lines"].size(), 8u);
  EXPECT_EQ(report["sequences"][0]["hunks"][0]["lines_left_out"], 48);
  EXPECT_EQ(report["sequences"][0]["hunks"][0]["b_count"], 56);
  options.max_hunks = options.max_calls = 0;
  EXPECT_EQ(SequenceJsonOf(&a, &b, options)["sequences"][0]["hunks"].size(), 10u);
}

TEST(SequenceReport, Summary) {
  FakeTrace a, b;
  a.Call(Linear(8));
  b.Call(Linear(16));
  b.In(0, 1);
  b.Call(Linear(4));
  DiffOptions options;
  options.summary = true;
  EXPECT_EQ(SequenceReportOf(&a, &b, options).text,
            "--- A  1 call\n"
            "+++ B  2 calls\n"
            "1 added, 1 changed, 0 the same, 1 hunk; 2 of 2 sequences differ\n"
            "\n"
            "first divergence: call 0 of A, call 0 of B, main-0, thread 0 (thread0), level 1\n"
            "\n"
            "main-0, thread 0 (thread0), level 1: 1 changed, 0 the same\n"
            "main-0, thread 1 (thread1), level 1: only in B: 1 call\n");
  const json report = SequenceJsonOf(&a, &b, {}, options);
  EXPECT_EQ(report["summary"]["sequences_that_differ"], 2);
  EXPECT_TRUE(report["sequences"][1]["a_thread"].is_null());
  EXPECT_FALSE(report["sequences"][0].contains("hunks"));
}

// Threads that only one side has are reported, as a difference.
TEST(SequenceReport, ThreadsOfOneSide) {
  FakeTrace a, b;
  for (FakeTrace* trace : {&a, &b}) trace->Call(Linear(8));
  a.In(0, 1);
  a.Call(Linear(4));
  EXPECT_THAT(SequenceReportOf(&a, &b).text, HasSubstr("\nmain-0, thread 1 (thread1), level 1: only in A: 1 call\n"));
  EXPECT_THAT(SequenceReportOf(&b, &a).text, HasSubstr("\nmain-0, thread 1 (thread1), level 1: only in B: 1 call\n"));
  EXPECT_THAT(SequenceReportOf(&a, &b).text, Not(HasSubstr("first divergence")));
}

// Threads are compared separately: their interleaving is no difference.
TEST(SequenceReport, TurnsAreNoDifference) {
  FakeTrace a, b;
  for (uint32_t thread : {0, 1}) {
    for (int i = 0; i < 4; ++i) {
      a.In(0, thread);
      a.Call(Linear(thread * 10 + 1));
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (uint32_t thread : {0, 1}) {
      b.In(0, thread);
      b.Call(Linear(thread * 10 + 1));
    }
  }
  EXPECT_FALSE(SequenceReportOf(&a, &b).different);
}

// Rank 1's calls are first in B.
TEST(SequenceReport, ProcessesByRank) {
  FakeTrace a(json{{"rank", 0}, {"role", "main"}}), b(json{{"rank", 1}, {"role", "main"}});
  a.AddProcess({{"rank", 1}, {"role", "main"}});
  b.AddProcess({{"rank", 0}, {"role", "main"}});
  for (uint32_t process : {0, 1}) {
    a.In(process, 0);
    a.Call(Linear(process == 0 ? 100 : 101));
    b.In(process, 0);
    b.Call(Linear(process == 0 ? 101 : 100));
  }
  EXPECT_FALSE(SequenceReportOf(&a, &b).different);
  // Different ranks match if there are no other processes.
  FakeTrace c(json{{"rank", 0}}), d(json{{"rank", 5}});
  c.Call(Linear(1));
  d.Call(Linear(1));
  EXPECT_FALSE(SequenceReportOf(&c, &d).different);
  // Rank 7 does not match rank 1.
  FakeTrace e(json{{"rank", 0}}), f(json{{"rank", 0}});
  e.AddProcess({{"rank", 1}});
  f.AddProcess({{"rank", 7}});
  for (FakeTrace* trace : {&e, &f}) {
    for (uint32_t process : {0, 1}) {
      trace->In(process, 0);
      trace->Call(Linear(1));
    }
  }
  EXPECT_THAT(SequenceReportOf(&e, &f).text, HasSubstr("rank 7, thread 0 (thread0), level 1: only in B: 1 call"));
}

// Workers match by name if their order differs.
TEST(SequenceReport, ThreadsByName) {
  FakeTrace a, b;
  for (uint32_t thread : {0, 1, 2}) {
    a.In(0, thread);
    a.Call(Linear(thread + 1));
    b.In(0, thread);
    b.Call(Linear(thread == 0 ? 1 : 4 - thread));
  }
  EXPECT_TRUE(SequenceReportOf(&a, &b).different);
  b.process(0).threads[1].name = "thread2";
  b.process(0).threads[2].name = "thread1";
  EXPECT_FALSE(SequenceReportOf(&a, &b).different);
}

TEST(SequenceReport, ManyThreadsThatHaveNoPartner) {
  constexpr uint32_t kThreads = 10'000;
  FakeTrace a, b;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    a.In(0, thread);
    a.Call(Linear(1));
    b.In(0, thread);
    b.Call(Linear(1));
  }
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    a.process(0).threads[thread].name = absl::StrCat("of a ", thread);
    b.process(0).threads[thread].name = absl::StrCat("of b ", thread);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(SequenceReportOf(&a, &b).different);  // their numbers are the same
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(SequenceReport, Scope) {
  FakeTrace a, b;
  a.Call(Named("torch.x"));
  b.Call(Named("torch.y"));
  Value cuda = TensorValue({8});
  cuda.device = "cuda:0";
  a.Call(MakeConfig(2, "f", {TensorValue({8})}));
  b.Call(MakeConfig(2, "f", {cuda}));
  DiffOptions options;
  options.scope.levels = {2};
  EXPECT_TRUE(SequenceReportOf(&a, &b, options).different);
  options.scope.coarsening = *Coarsening::Parse({"device"});
  EXPECT_FALSE(SequenceReportOf(&a, &b, options).different);
  options.scope.levels = {};
  EXPECT_TRUE(SequenceReportOf(&a, &b, options).different);
  options.scope.filter.exclude = {"torch.*"};
  EXPECT_FALSE(SequenceReportOf(&a, &b, options).different);
}

TEST(SequenceReport, Colors) {
  FakeTrace a, b;
  a.Call(Linear(8));
  b.Call(Linear(9));
  b.Call(Named("torch.x"));
  EXPECT_THAT(SequenceReportOf(&a, &b).text, Not(HasSubstr("\x1b")));
  DiffOptions options;
  options.color = true;
  EXPECT_THAT(SequenceReportOf(&a, &b, options).text, HasSubstr("[\x1b[31m8\x1b[0m -> \x1b[32m9\x1b[0m, 4]"));
  EXPECT_THAT(SequenceReportOf(&a, &b, options).text, HasSubstr("\x1b[32m+   1  torch.x()\x1b[0m\n"));
}

TEST(SequenceReport, Markdown) {
  FakeTrace a, b;
  a.Call(Linear(8));
  b.Call(Linear(9));
  b.In(0, 3);
  b.Call(Linear(1));
  DiffOptions options;
  options.format = DiffFormat::kMarkdown;
  EXPECT_EQ(SequenceReportOf(&a, &b, options).text,
            "# torchtrace diff --sequence\n"
            "\n"
            "| | A | B |\n"
            "|---|---|---|\n"
            "| trace | `A` | `B` |\n"
            "| calls | 1 | 2 |\n"
            "\n"
            "1 added, 1 changed, 0 the same, 1 hunk; 2 of 2 sequences differ.\n"
            "\n"
            "## First divergence\n"
            "\n"
            "call 0 of A, call 0 of B, main-0, thread 0 (thread0), level 1\n"
            "\n"
            "## main-0, thread 0 (thread0), level 1\n"
            "\n"
            "1 changed, 0 the same\n"
            "\n"
            "```diff\n"
            "@@ -0,1 +0,1 @@\n"
            "~ 0 0  torch.linear(Tensor([8 -> 9, 4], \"float32\"))\n"
            "```\n"
            "\n"
            "## main-0, thread 3 (thread3), level 1\n"
            "\n"
            "only in B: 1 call\n");
}

// For random calls: every call is in a line of a hunk or the same, lines ascend,
// and swapping the sides swaps the numbers.
TEST(SequenceReport, EveryCallIsAccountedFor) {
  std::mt19937 random(7);
  SequenceOptions options;
  options.max_hunks = options.max_calls = 0;
  for (int round = 0; round < 100; ++round) {
    FakeTrace a, b;
    options.context = random() % 4;
    for (FakeTrace* trace : {&a, &b}) {
      for (unsigned i = random() % 40; i > 0; --i) {
        const int level = static_cast<int>(random() % 2 + 1);
        trace->Enter(MakeConfig(level, random() % 3 == 0 ? "f" : "g", {TensorValue({random() % 3 + 1})}));
        if (random() % 3 == 0) trace->Call(Mm(random() % 2));
        trace->Leave();
      }
    }
    const json there = SequenceJsonOf(&a, &b, options), back = SequenceJsonOf(&b, &a, options);
    const json &x = there["summary"], &y = back["summary"];
    EXPECT_EQ(x["removed"].get<int>() + x["changed"].get<int>() + x["same"].get<int>(), there["a"]["calls"]);
    EXPECT_EQ(x["added"].get<int>() + x["changed"].get<int>() + x["same"].get<int>(), there["b"]["calls"]);
    EXPECT_EQ(x["same"], y["same"]);
    for (const json& sequence : there["sequences"]) {
      int64_t last_a = -1, last_b = -1, changes = 0;
      for (const json& hunk : sequence.value("hunks", json::array())) {
        int64_t a_lines = 0, b_lines = 0;
        for (const json& line : hunk["lines"]) {
          if (line.contains("a_call")) {
            ++a_lines;
            EXPECT_GT(line["a_call"].get<int64_t>(), last_a);
            last_a = line["a_call"];
          }
          if (line.contains("b_call")) {
            ++b_lines;
            EXPECT_GT(line["b_call"].get<int64_t>(), last_b);
            last_b = line["b_call"];
          }
          changes += line["change"] != "same" ? 1 : 0;
        }
        EXPECT_EQ(hunk["a_count"], a_lines);
        EXPECT_EQ(hunk["b_count"], b_lines);
      }
      if (!sequence["a_thread"].is_null() && !sequence["b_thread"].is_null()) {
        EXPECT_EQ(changes, sequence["removed"].get<int64_t>() + sequence["added"].get<int64_t>() +
                               sequence["changed"].get<int64_t>());
      }
    }
  }
}

}  // namespace
}  // namespace torchtrace
