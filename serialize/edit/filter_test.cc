#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/log/log_trace.h"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::ElementsAre;

// The new trace, read from the written log.
struct Filtered {
  FilterReport report;
  std::unique_ptr<Trace> trace;
};

Filtered FilterFake(FakeTrace* trace, const FilterOptions& options) {
  static int number = 0;
  const std::string path = absl::StrCat(testing::TempDir(), "/filtered-", getpid(), "-", number++, ".ttlog");
  const std::unique_ptr<TraceWriter> writer = TraceWriter::Create(path).value();
  Filtered filtered;
  filtered.report = FilterTrace(trace, options, writer.get()).value();
  const absl::Status finished = writer->Finish();
  EXPECT_TRUE(finished.ok()) << finished;
  filtered.trace = OpenLogs(path).value();
  return filtered;
}

// Every record as a line: `0/1 10 > > torch.add` is an entry on thread 1 of process 0, two deep.
std::vector<std::string> Lines(Trace* trace, bool with_depth = true) {
  std::vector<std::string> lines;
  const absl::Status read = trace->Read([&](const CallRecord& record) -> absl::Status {
    std::string line = absl::StrCat(record.process, "/", record.thread, " ", record.time_ns, " ");
    for (uint32_t i = 0; with_depth && i < record.depth; ++i) line += "> ";
    absl::StrAppend(&line, std::string(ReadConfigHead(trace->identity(record.config)).api));
    if (record.kind == CallRecord::kLeave) line += " left";
    if (record.kind == CallRecord::kRaise) absl::StrAppend(&line, " raised ", std::string(record.exception));
    lines.push_back(line);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return lines;
}

// The same thread by thread: without clocks, processes are read one after the other.
std::vector<std::string> ByThread(std::vector<std::string> lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const std::string& a, const std::string& b) {
    return a.compare(0, a.find(' '), b, 0, b.find(' ')) < 0;
  });
  return lines;
}

Config Api(const std::string& api, int level = 1) { return MakeConfig(level, api); }

// outer { inner { leaf } raises; other }, and leaf on another thread.
void AddCalls(FakeTrace* trace) {
  trace->Enter(Api("outer"));
  trace->Enter(Api("inner", 2));
  trace->Call(Api("leaf", 2));
  trace->Raise("ValueError");
  trace->Call(Api("other", 2));
  trace->Leave();
  trace->In(0, 1);
  trace->Call(Api("leaf", 2));
}

TEST(Filter, KeepsWhatPasses) {
  FakeTrace trace;
  AddCalls(&trace);
  FilterOptions options;
  options.filter.include = {"leaf", "inner"};
  const Filtered filtered = FilterFake(&trace, options);
  EXPECT_THAT(Lines(filtered.trace.get()),
              ElementsAre("0/0 20 inner", "0/0 30 > leaf", "0/0 40 > leaf left", "0/0 50 inner raised ValueError",
                          "0/1 90 leaf", "0/1 100 leaf left"));
  EXPECT_EQ(filtered.report.read, 5u);
  EXPECT_EQ(filtered.report.kept, 3u);
  EXPECT_EQ(filtered.report.parents, 0u);
}

TEST(Filter, ParentsComeWithTheirFirstKeptChild) {
  FakeTrace trace;
  AddCalls(&trace);
  trace.In(0, 0);
  trace.Enter(Api("outer"));  // with no kept call inside
  trace.Call(Api("other", 2));
  trace.Leave();
  FilterOptions options;
  options.filter.include = {"leaf"};
  options.with_parents = true;
  const Filtered filtered = FilterFake(&trace, options);
  EXPECT_THAT(Lines(filtered.trace.get()),
              ElementsAre("0/0 10 outer", "0/0 20 > inner", "0/0 30 > > leaf", "0/0 40 > > leaf left",
                          "0/0 50 > inner raised ValueError", "0/0 80 outer left", "0/1 90 leaf", "0/1 100 leaf left"));
  EXPECT_EQ(filtered.report.kept, 4u);
  EXPECT_EQ(filtered.report.parents, 2u);
}

TEST(Filter, NumbersThreadsRanksLevels) {
  FakeTrace trace(json{{"rank", 0}});
  AddCalls(&trace);
  trace.AddProcess(json{{"rank", 1}, {"pid", 77}});
  trace.In(1, 0);
  trace.Call(Api("elsewhere"));
  const auto apis = [&trace](const std::function<void(FilterOptions*)>& set) {
    FilterOptions options;
    set(&options);
    std::vector<std::string> names;
    const Filtered filtered = FilterFake(&trace, options);
    for (const std::string& line : Lines(filtered.trace.get(), /*with_depth=*/false)) {
      if (line.find(" left") == std::string::npos && line.find(" raised") == std::string::npos) {
        names.push_back(line.substr(line.rfind(' ') + 1));
      }
    }
    return absl::StrJoin(names, " ");
  };
  EXPECT_EQ(apis([](FilterOptions*) {}), "outer inner leaf other leaf elsewhere");
  EXPECT_EQ(apis([](FilterOptions* o) { o->calls = *NumberSet::Parse("1-2,5"); }), "inner leaf elsewhere");
  EXPECT_EQ(apis([](FilterOptions* o) { o->threads = {"1"}; }), "leaf");
  EXPECT_EQ(apis([](FilterOptions* o) { o->threads = {"thr*0"}; }), "outer inner leaf other elsewhere");
  EXPECT_EQ(apis([](FilterOptions* o) { o->ranks = *NumberSet::Parse("1-"); }), "elsewhere");
  EXPECT_EQ(apis([](FilterOptions* o) { o->levels = {1}; }), "outer elsewhere");
  EXPECT_EQ(apis([](FilterOptions* o) { o->where = *Where::Parse("pid = 77 or raised"); }), "inner elsewhere");
  EXPECT_EQ(apis([](FilterOptions* o) { o->where = *Where::Parse("duration <= 10ns and depth > 0"); }), "leaf other");
}

TEST(Filter, ByTag) {
  FakeTrace trace;
  for (const int step : {1, 2, 3}) {
    trace.Tag(absl::StrCat(R"({"step":)", step, "}"));
    trace.Enter(MakeConfig(1, absl::StrCat("step", step)));
    trace.Wait(step * 100);
    trace.Tag("");
    trace.Call(MakeConfig(1, absl::StrCat("in", step)));
    trace.Leave();
  }
  trace.Tag("no object");
  trace.Call(MakeConfig(1, "damaged"));
  const auto apis = [&trace](const char* where) {
    FilterOptions options;
    options.where = *Where::Parse(where);
    return Lines(FilterFake(&trace, options).trace.get(), /*with_depth=*/false);
  };
  EXPECT_THAT(apis("tag(step) = 2"), ElementsAre("0/0 150 step2", "0/0 380 step2 left"));
  EXPECT_EQ(apis("tag(step)").size(), 6u);
  // If the end decides, the tags are still those of the entry.
  EXPECT_THAT(apis("tag(step) >= 2 and duration > 300ns"), ElementsAre("0/0 390 step3", "0/0 720 step3 left"));
}

TEST(Filter, ProcessesKeepWhatTheyAre) {
  FakeTrace trace(json{{"rank", 0},
                       {"pid", 11},
                       {"clock",
                        {{"unit_ns", 0.5},
                         {"origin_units", 4},
                         {"origin_monotonic_ns", 5},
                         {"origin_realtime_ns", 1700000000000000005}}},
                       {"end",
                        {{"exit_code", 0},
                         {"units", 9},
                         {"monotonic_ns", 200},
                         {"threads", {{{"number", 0}, {"calls", 4}, {"getters", 3}}}}}},
                       {"filtered", {{{"from", "first"}}}}});
  AddCalls(&trace);
  trace.process(0).dropped["recursion"] = 7;
  trace.AddProcess(json{{"rank", 1}});
  FilterOptions options;
  options.ranks = *NumberSet::Parse("0");
  options.filter.include = {"leaf"};
  options.description = json{{"from", "second"}};
  const Filtered filtered = FilterFake(&trace, options);
  ASSERT_TRUE(filtered.trace->Count().ok());
  ASSERT_EQ(filtered.trace->processes().size(), 1u);
  const ProcessInfo& process = filtered.trace->processes()[0];
  const json& metadata = *process.metadata;
  EXPECT_EQ(metadata["pid"], 11);
  EXPECT_EQ(metadata["source"], "out/log/main-0.ttlog");
  EXPECT_EQ(metadata["end"]["exit_code"], 0);
  EXPECT_EQ(metadata["end"]["threads"][0], json::parse(R"({"number": 0, "getters": 3})"));
  EXPECT_EQ(metadata["filtered"], json::parse(R"([{"from": "first"}, {"from": "second"}])"));
  EXPECT_EQ(metadata["clock"]["origin_realtime_ns"], 1700000000000000005);
  EXPECT_EQ(process.dropped.at("recursion"), 7u);
  EXPECT_EQ(process.damage.sentences.size(), 0u);
  ASSERT_EQ(process.threads.size(), 2u);
  EXPECT_EQ(process.threads[1].name, "thread1");
}

TEST(Filter, CallsThatNeverReturnStayOpen) {
  FakeTrace trace;
  trace.Enter(Api("outer"));
  trace.Call(Api("leaf"));
  const Filtered filtered = FilterFake(&trace, {});
  EXPECT_THAT(Lines(filtered.trace.get()), ElementsAre("0/0 10 outer", "0/0 20 > leaf", "0/0 30 > leaf left"));
  EXPECT_EQ(filtered.trace->processes()[0].open_calls, 1u);
}

// ---- properties, on random traces ----

void AddRandomCalls(FakeTrace* trace, std::mt19937* random) {
  const auto below = [random](uint32_t limit) { return (*random)() % limit; };
  std::map<std::pair<uint32_t, uint32_t>, int> open;
  trace->AddProcess(json{{"rank", 1}});
  for (int i = 0; i < 300; ++i) {
    const std::pair<uint32_t, uint32_t> at(below(2), below(2));
    trace->In(at.first, at.second);
    if (open[at] > 0 && below(2) == 0) {
      --open[at];
      if (below(4) == 0) {
        trace->Raise("Error");
      } else {
        trace->Leave();
      }
      continue;
    }
    ++open[at];
    trace->Wait(below(3));
    Value tensor = TensorValue({static_cast<int64_t>(below(3))});
    if (below(2) == 0) tensor.text = "float16";
    trace->Enter(MakeConfig(1 + static_cast<int>(below(2)), absl::StrCat("api", below(4)), {tensor}));
  }
}

json Stats(Trace* trace, const GlobFilter& filter = {}) {
  std::ostringstream out;
  StatsOptions options;
  options.grouping.by = StatsBy::kConfig;
  options.format = StatsFormat::kJson;
  options.filter = filter;
  EXPECT_TRUE(WriteStats({{trace, "t"}}, options, &out).ok());
  json stats = json::parse(out.str());
  // Self times change if inner calls are left out.
  stats.erase("total_self_time_ns");
  for (json& level : stats["by_level"]) level.erase("total_self_time_ns");
  for (json& row : stats["configs"]) {
    row.erase("self_time_ns");
    row.erase("self_percent");
  }
  std::sort(stats["configs"].begin(), stats["configs"].end());
  return stats;
}

TEST(Filter, Properties) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    FakeTrace trace(json{{"rank", 0}});
    AddRandomCalls(&trace, &random);

    // No filter changes nothing.
    EXPECT_EQ(ByThread(Lines(FilterFake(&trace, {}).trace.get())), ByThread(Lines(&trace))) << seed;

    // The kept calls are those that stats counts, and filtering again changes nothing.
    FilterOptions options;
    options.filter.include = {"api[0-1]"};
    const Filtered some = FilterFake(&trace, options);
    EXPECT_EQ(Stats(some.trace.get()), Stats(&trace, options.filter)) << seed;

    // A condition and its negation together keep everything.
    options = {};
    options.where = *Where::Parse("dtype = float16 and duration > 30");
    const FilterReport with = FilterFake(&trace, options).report;
    options.where = *Where::Parse("not (dtype = float16 and duration > 30)");
    const FilterReport without = FilterFake(&trace, options).report;
    EXPECT_EQ(with.kept + without.kept, with.read) << seed;

    // With parents, kept calls keep their parents, and every other call is around a kept one.
    options = {};
    options.filter.include = {"api0"};
    const std::vector<std::string> alone = Lines(FilterFake(&trace, options).trace.get(), /*with_depth=*/false);
    options.with_parents = true;
    const Filtered parents = FilterFake(&trace, options);
    const std::vector<std::string> lines = Lines(parents.trace.get());
    const std::vector<std::string> original = Lines(&trace);
    const std::set<std::string> all(original.begin(), original.end());
    for (const std::string& line : lines) EXPECT_EQ(all.count(line), 1u) << line;
    size_t kept = 0;
    for (const std::string& line : Lines(parents.trace.get(), /*with_depth=*/false)) {
      kept += line.find(" api0") != std::string::npos ? 1 : 0;
    }
    EXPECT_EQ(kept, alone.size()) << seed;
    std::map<uint64_t, std::pair<uint64_t, std::string>> calls;  // parent and API by number
    EXPECT_TRUE(parents.trace
                    ->Read([&](const CallRecord& record) -> absl::Status {
                      if (record.kind == CallRecord::kEnter) {
                        calls[record.call] = {record.parent,
                                              std::string(ReadConfigHead(parents.trace->identity(record.config)).api)};
                      }
                      return absl::OkStatus();
                    })
                    .ok());
    std::set<uint64_t> needed;
    for (const auto& [number, call] : calls) {
      if (call.second != "api0") continue;
      for (uint64_t at = number; at != kNoCall && needed.insert(at).second;) at = calls[at].first;
    }
    EXPECT_EQ(needed.size(), calls.size()) << seed;
  }
}

}  // namespace
}  // namespace torchtrace
