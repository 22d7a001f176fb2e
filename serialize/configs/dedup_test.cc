#include "serialize/configs/dedup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/model/config.h"
#include "serialize/render/render.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

Coarsening Ignoring(const std::vector<std::string>& names) { return *Coarsening::Parse(names); }

// `3 f(1)` for each.
std::string Text(const std::vector<DedupConfig>& configs) {
  std::string text;
  for (const DedupConfig& config : configs) text += std::to_string(config.calls) + " " + config.line + "\n";
  return text;
}

std::string DedupText(const std::vector<Trace*>& traces, const DedupOptions& options) {
  Dedup dedup(options);
  for (Trace* const trace : traces) EXPECT_TRUE(dedup.Add(trace, "trace").ok());
  return Text(dedup.Finish());
}

Config Call(int level, const std::string& api, int64_t size) { return MakeConfig(level, api, {TensorValue({size})}); }

TEST(Dedup, GathersOverTraces) {
  FakeTrace a, b;
  a.Call(Call(1, "g", 2));
  a.Call(Call(1, "f", 2));
  a.Call(Call(1, "f", 2), "facets");
  b.Call(Call(1, "f", 2));
  b.Call(Call(1, "f", 10));
  EXPECT_EQ(DedupText({&a, &b}, {}),
            "1 f(Tensor([10], \"float32\"))\n"
            "3 f(Tensor([2], \"float32\"))\n"
            "1 g(Tensor([2], \"float32\"))\n");
  EXPECT_EQ(DedupText({&b, &a}, {}), DedupText({&a, &b}, {}));
  EXPECT_EQ(DedupText({}, {}), "");
}

TEST(Dedup, ConfigsThatWereNeverCalledAreNone) {
  FakeTrace trace;
  trace.Define(Call(1, "f", 2));
  trace.Call(Call(1, "g", 2));
  EXPECT_EQ(DedupText({&trace}, {}), "1 g(Tensor([2], \"float32\"))\n");
}

TEST(Dedup, FiltersAndLevels) {
  FakeTrace trace;
  trace.Call(Call(1, "torch.f", 2));
  trace.Call(Call(2, "aten::f", 2));
  trace.Call(Call(2, "aten::g", 2));
  DedupOptions options;
  options.filter.include = {"*f"};
  EXPECT_EQ(DedupText({&trace}, options), "1 aten::f(Tensor([2], \"float32\"))\n1 torch.f(Tensor([2], \"float32\"))\n");
  options.levels = {2};
  EXPECT_EQ(DedupText({&trace}, options), "1 aten::f(Tensor([2], \"float32\"))\n");
}

TEST(Dedup, LevelsApartOrNot) {
  FakeTrace trace;
  trace.Call(Call(2, "f", 2));
  trace.Call(Call(0, "f", 2));
  trace.Call(Call(0, "f", 2));
  Dedup apart({});
  ASSERT_TRUE(apart.Add(&trace, "").ok());
  const std::vector<DedupConfig> two = apart.Finish();
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(ReadConfigHead(two[0].identity).level, 0);
  EXPECT_EQ(two[0].calls, 2u);
  EXPECT_EQ(ReadConfigHead(two[1].identity).level, 2);

  DedupOptions options;
  options.levels_apart = false;
  Dedup merged(options);
  ASSERT_TRUE(merged.Add(&trace, "").ok());
  const std::vector<DedupConfig> one = merged.Finish();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].calls, 3u);
  EXPECT_EQ(ReadConfigHead(one[0].example).level, 0);
}

TEST(Dedup, Ignoring) {
  FakeTrace trace;
  for (const int64_t size : {64, 2, 3, 2}) trace.Call(Call(1, "f", size));
  DedupOptions options;
  options.ignore = Ignoring({"shape"});
  Dedup dedup(options);
  ASSERT_TRUE(dedup.Add(&trace, "").ok());
  const std::vector<DedupConfig> configs = dedup.Finish();
  EXPECT_EQ(Text(configs), "4 f(Tensor([*], \"float32\"))\n");
  EXPECT_EQ(configs[0].example, EncodeConfig(Call(1, "f", 2)));
}

TEST(Dedup, KeepFirst) {
  FakeTrace a, b;
  for (const int64_t size : {9, 8, 7}) a.Call(Call(1, "f", size));
  a.Call(Call(1, "g", 1));
  b.Call(Call(1, "f", 1));
  b.Call(Call(1, "g", 2));
  b.Call(Call(1, "f", 9));
  DedupOptions options;
  options.keep_first = 2;
  EXPECT_EQ(DedupText({&a, &b}, options),
            "1 f(Tensor([8], \"float32\"))\n2 f(Tensor([9], \"float32\"))\n"
            "1 g(Tensor([1], \"float32\"))\n1 g(Tensor([2], \"float32\"))\n");
}

TEST(Dedup, Provenance) {
  FakeTrace two(nlohmann::json({{"host", "alpha"}, {"pid", 7}, {"rank", 0}}));
  two.AddProcess(nlohmann::json({{"host", "beta"}, {"pid", "no number"}}));
  two.Call(Call(1, "f", 2));
  two.In(1, 0);
  two.Call(Call(1, "f", 2));
  two.Call(Call(1, "f", 2));
  two.Call(Call(1, "g", 2));
  FakeTrace one(nlohmann::json({{"pid", 8}}));
  one.Call(Call(1, "f", 2));
  DedupOptions options;
  options.provenance = true;
  Dedup dedup(options);
  ASSERT_TRUE(dedup.Add(&two, "a").ok());
  ASSERT_TRUE(dedup.Add(&one, "b/log/main-0.ttlog").ok());
  const std::vector<DedupConfig> configs = dedup.Finish();
  ASSERT_EQ(dedup.sources().size(), 3u);
  EXPECT_EQ(dedup.sources()[0].host, "alpha");
  EXPECT_EQ(dedup.sources()[0].pid, 7);
  EXPECT_EQ(dedup.sources()[0].rank, 0);
  EXPECT_EQ(dedup.sources()[1].host, "beta");
  EXPECT_EQ(dedup.sources()[1].pid, -1);
  EXPECT_EQ(dedup.sources()[2].rank, -1);
  std::ostringstream out;
  ASSERT_TRUE(WriteProvenanceText(configs, dedup.sources(), false, &out).ok());
  EXPECT_EQ(out.str(),
            "f(Tensor([2], \"float32\"))\ta/rank 0 (7): 1 call, a/main-1: 2 calls, b/log/main-0.ttlog: 1 call\n"
            "g(Tensor([2], \"float32\"))\ta/main-1: 1 call\n");
  out.str("");
  ASSERT_TRUE(WriteProvenanceText(configs, dedup.sources(), true, &out).ok());
  EXPECT_EQ(out.str().substr(0, 10), "      4  f");
}

TEST(Dedup, ProcessesOfOneLogAreToldApart) {
  FakeTrace trace(nlohmann::json({{"rank", 3}, {"pid", 7}}));
  trace.AddProcess(nlohmann::json({{"pid", 8}}));
  trace.AddProcess(nlohmann::json::object());
  for (uint32_t process = 0; process < 3; ++process) {
    trace.process(process).path = "all.ttlog";
    trace.In(process, 0);
    trace.Call(Call(1, "f", 2));
  }
  DedupOptions options;
  options.provenance = true;
  Dedup dedup(options);
  ASSERT_TRUE(dedup.Add(&trace, "all.ttlog").ok());
  std::ostringstream out;
  ASSERT_TRUE(WriteProvenanceText(dedup.Finish(), dedup.sources(), false, &out).ok());
  EXPECT_EQ(out.str(),
            "f(Tensor([2], \"float32\"))\tall.ttlog/rank 3 (7): 1 call, all.ttlog/all[pid 8]: 1 call, "
            "all.ttlog/all[2]: 1 call\n");
}

TEST(Dedup, ATimeIsUnknownIfThatOfSomeCallsIs) {
  FakeTrace timed(nlohmann::json({{"clock", nlohmann::json::object()}}));
  timed.Call(Call(1, "f", 2));
  timed.Call(Call(1, "g", 2));
  FakeTrace untimed;  // no clock, and no duration
  untimed.Enter(Call(1, "f", 2));
  untimed.Wait(-10);
  untimed.Leave();
  DedupOptions options;
  options.times = true;
  Dedup dedup(options);
  ASSERT_TRUE(dedup.Add(&timed, "a").ok());
  ASSERT_TRUE(dedup.Add(&untimed, "b").ok());
  const std::vector<DedupConfig> configs = dedup.Finish();
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0].time_ns, -1);
  EXPECT_GT(configs[1].time_ns, 0);
}

// The sources of configs that become equal are added up.
TEST(Dedup, ProvenanceOfCoarsened) {
  FakeTrace one;
  one.Call(Call(1, "f", 2));
  one.Call(Call(1, "f", 3));
  DedupOptions options;
  options.provenance = true;
  options.ignore = Ignoring({"shape"});
  Dedup dedup(options);
  ASSERT_TRUE(dedup.Add(&one, "a").ok());
  ASSERT_TRUE(dedup.Add(&one, "b").ok());
  const std::vector<DedupConfig> configs = dedup.Finish();
  ASSERT_EQ(configs.size(), 1u);
  ASSERT_EQ(configs[0].sources.size(), 2u);
  for (uint32_t source = 0; source < 2; ++source) {
    EXPECT_EQ(configs[0].sources[source].source, source);
    EXPECT_EQ(configs[0].sources[source].calls, 2u);
    EXPECT_EQ(configs[0].sources[source].time_ns, -1);  // not asked for
  }
}

// The same lines as in api_configs.txt, for all kinds of values and for several levels.
TEST(Dedup, LinesAreThoseOfApiConfigs) {
  FakeTrace trace;
  std::mt19937 random(1);
  std::vector<Config> configs;
  for (const ValueSample& sample : ValueSamples()) {
    configs.push_back(SampleConfig(sample, random() % 2 == 0 ? "f" : "torch.g"));
    configs.push_back(SampleConfig(sample, "f"));
    configs.back().level = 2;
  }
  // Two nans that differ only in their bits.
  Config nan = MakeConfig(1, "f", {Value()});
  nan.args[0].tag = ValueTag::kFloat;
  nan.args[0].real = __builtin_nan("");
  configs.push_back(nan);
  nan.args[0].real = __builtin_nan("7");
  configs.push_back(nan);
  std::shuffle(configs.begin(), configs.end(), random);
  for (const Config& config : configs) trace.Call(config);

  RenderOptions render;
  render.folder = std::filesystem::path(::testing::TempDir()) / "dedup_test";
  render.formats = *RenderFormats::Parse("configs.txt");
  render.force = true;
  ASSERT_TRUE(Render(&trace, render).ok());
  std::ifstream file(render.folder + "/api_configs.txt", std::ios::binary);
  const std::string expected{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};

  DedupOptions options;
  options.levels_apart = false;
  Dedup dedup(options);
  ASSERT_TRUE(dedup.Add(&trace, "").ok());
  std::string lines;
  uint64_t calls = 0;
  for (const DedupConfig& config : dedup.Finish()) {
    lines += config.line + "\n";
    calls += config.calls;
  }
  EXPECT_EQ(lines, expected);
  EXPECT_EQ(calls, configs.size());
}

TEST(Dedup, UnreadableConfigsHaveALine) {
  class Broken : public FakeTrace {
   public:
    std::string_view identity(ConfigId) const override { return std::string_view("\1\1f\1\xff", 5); }
  };
  Broken trace;
  trace.Call(Call(1, "f", 2));
  DedupOptions options;
  options.ignore = Ignoring({"device"});
  EXPECT_EQ(DedupText({&trace}, options), "1 f(object(\"unreadable: byte 4: unknown value tag 255\"))\n");
}

}  // namespace
}  // namespace torchtrace
