#include "serialize/import/open_trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/import/importer.h"
#include "serialize/model/config.h"
#include "serialize/reports/reports.h"
#include "serialize/testing/fake_trace.h"
#include "serialize/testing/value_samples.h"

namespace torchtrace {
namespace {

std::string Write(const std::string& name, const std::string& content) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

std::unique_ptr<Trace> Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *std::move(trace) : nullptr;
}

// Each configuration in the order of its first call: `2 x3 aten::f(1)`, level, count, text.
std::vector<std::string> Configs(Trace* trace) {
  const absl::StatusOr<std::vector<uint64_t>> counts = trace->Count();
  EXPECT_TRUE(counts.ok()) << counts.status();
  std::vector<std::string> lines;
  for (VariantId variant = 0; counts.ok() && variant < counts->size(); ++variant) {
    const Config config = *ParseConfig(trace->identity(trace->config_of(variant)));
    lines.push_back(absl::StrCat(config.level, " x", (*counts)[variant], " ", FormatConfig(config)));
  }
  return lines;
}

// The error of opening or counting the file.
std::string Error(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
  if (!trace.ok()) return std::string(trace.status().message());
  return std::string((*trace)->Count().status().message());
}

using Lines = std::vector<std::string>;

TEST(OpenTrace, Text) {
  const std::string path = Write("t/list.txt",
                                 "# from somewhere\r\n"
                                 "torch.add(Tensor([2, 3], \"float32\"), alpha=10)\r\n"
                                 "\n"
                                 "aten::add.Tensor(1)\n"
                                 "torch.add(Tensor([2, 3],\"float32\",), alpha=10, )\n"
                                 "torch.add(Tensor([2, 3], \"float32\"), alpha=10)");
  const auto trace = Open(path);
  EXPECT_EQ(Configs(trace.get()),
            (Lines{"1 x3 torch.add(Tensor([2, 3], \"float32\"), alpha=10)", "2 x1 aten::add.Tensor(1)"}));
  EXPECT_EQ(TraceFormat(*trace), "calls as text");
  EXPECT_EQ(TraceFormat(*Open(Write("t/api_configs.txt", "f(1)\n"))), "configurations as text");
  EXPECT_EQ(Error(Write("t/bad.txt", "f(1)\ng(?)\n")),
            absl::StrCat(testing::TempDir(), "t/bad.txt line 2, column 3: expected a value, found \"?)\""));
}

TEST(OpenTrace, LinesThatApiTracerCutAreCounted) {
  std::string line = "f(";
  while (line.size() < 1019) line += "1, ";
  const auto trace = Open(Write("cut.txt", absl::StrCat("f(1)\n", line, "\"a...)\n")));
  EXPECT_EQ(Configs(trace.get()), (Lines{"1 x1 f(1)"}));
  EXPECT_EQ(TraceNotes(*trace).back(), "1 lines that api_tracer cut at 1,024 characters were left out");
}

TEST(OpenTrace, YamlHoldsEverySample) {
  std::string yaml;
  std::vector<std::string> identities;
  for (const ValueSample& sample : ValueSamples()) {
    Config config = SampleConfig(sample, "aten::f.Tensor");
    config.level = 2;
    config.kwargs = {{sample.name, config.args[0]}};
    yaml += FormatYamlItem(config, {});
    identities.push_back(EncodeConfig(config));
  }
  const auto trace = Open(Write("samples.yaml", yaml));
  ASSERT_TRUE(trace->Count().ok()) << trace->Count().status();
  ASSERT_EQ(trace->config_count(), identities.size());
  for (ConfigId i = 0; i < identities.size(); ++i) {
    EXPECT_EQ(trace->identity(i), identities[i]) << ValueSamples()[i].name;
    EXPECT_EQ(trace->facets(i), "");
  }
}

TEST(OpenTrace, YamlOfApiTracer) {
  const auto trace = Open(Write("api_tracer.yaml", R"(api: torch.nn.functional.linear
args:
- type: torch.Tensor
  shape:
  - 2
  - 8
  dtype: torch.float32
  device: cpu
- type: slice
  value:
    start: null
    stop: 2
    step: null
- type: dict
  value:
    '1': 2.0
- type: torch.Size
  value: [2, 3]
kwargs:
  bias: null
  name: 'it''s'
  number: '1'
  word: 1e5
id: 7
stack:
- a.py:1 in f
---
api: torch.g
args: []
kwargs:
  memory_format:
    type: torch.memory_format
    value: torch.channels_last
  new:
    type: torch.finfo
    value: 3
---
)"));
  EXPECT_EQ(
      Configs(trace.get()),
      (Lines{"1 x1 torch.nn.functional.linear(Tensor([2, 8], \"float32\"), slice(None, 2, None), dict{\"1\": 2.0}, "
             "torch.Size([2, 3]), bias=None, name=\"it's\", number=\"1\", word=\"1e5\")",
             "1 x1 torch.g(memory_format=torch.channels_last, new=object(\"torch.finfo\"))"}));
}

TEST(OpenTrace, YamlInOtherStyles) {
  const Lines expected = {"1 x2 f(1)", "2 x3 aten::g(...)"};
  EXPECT_EQ(
      Configs(Open(Write("flow.yaml", "[{api: f, args: [1]}, {api: f, args: [1]}, {api: aten::g, calls: 3}]")).get()),
      expected);
  EXPECT_EQ(Configs(Open(Write("doc.yaml",
                               "%YAML 1.1\n--- {api: f, args: [1]}\n---\n{api: f, args: [1]}\n...\n# x\n---\n"
                               "api: aten::g\ncalls: 3\n"))
                        .get()),
            expected);
  EXPECT_EQ(Configs(Open(Write("list.yaml",
                               "---\n# x\n- args: [1]\n  api: f\n-\n  api: f\n  args:\n  - 1\n\n"
                               "- api: aten::g\n  # y\n  calls: 3\n"))
                        .get()),
            expected);
  EXPECT_EQ(Configs(Open(Write("none.yaml", "[]\n")).get()), Lines());
}

TEST(OpenTrace, YamlErrorsNameTheLine) {
  const std::string folder = testing::TempDir();
  constexpr struct {
    const char* text;
    const char* error;
  } kRows[] = {
      {"- api: f\n  args: [1]\n- api: g\n  args: [{type: list, value: 3}]\n",
       "line 3, args[0].value: expected a list, found 3"},
      {"- api: f\n- args: []\n", "line 2, api: expected the API's name, found nothing"},
      {"- api: f\n- api: ''\n", "line 2, api: expected the API's name, found \"\""},
      {"- api: f\n  level: 99\n", "line 1, level: expected a level from 0 to 4, found 99"},
      {"- api: f\n- api: g\n  kwargs: {a: 1}\n  kwargs: {b: 1}\n", "line 2, kwargs: given twice; expected it once"},
      {"- api: f\n  kwargs: {a: 1, b: 2, a: 3}\n", "line 1, kwargs.a: given twice; expected it once"},
      {"- api: f\n  args: [&a [1], *a]\n",
       "line 2, column 18: expected a value, found an alias, which is not supported"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Error(Write("y.yaml", row.text)), absl::StrCat(folder, "y.yaml ", row.error));
  }
  EXPECT_EQ(Error(Write("y3.yaml", "- api: f\n  args: [1\n- api: g\n")).substr(0, folder.size() + 13),
            folder + "y3.yaml line ");
  EXPECT_EQ(Error(Write("y5.yaml", absl::StrCat("- api: f\n  args: ", std::string(100'000, '['), "\n")))
                .substr(0, folder.size() + 15),
            folder + "y5.yaml line 2,");
}

TEST(OpenTrace, JsonLinesHoldEverySample) {
  FakeTrace fake;
  for (const ValueSample& sample : ValueSamples()) {
    Config config = SampleConfig(sample, "aten::f.Tensor");
    config.kwargs = {{sample.name, config.args[0]}};
    fake.Call(config);
  }
  std::ostringstream json;
  DumpOptions options;
  options.format = DumpFormat::kJsonl;
  ASSERT_TRUE(WriteDump(&fake, options, &json).ok());
  const auto trace = Open(Write("samples.jsonl", json.str()));
  ASSERT_TRUE(trace->Count().ok()) << trace->Count().status();
  ASSERT_EQ(trace->config_count(), fake.config_count());
  for (ConfigId i = 0; i < fake.config_count(); ++i) {
    EXPECT_EQ(trace->identity(i), fake.identity(i)) << ValueSamples()[i].name;
  }
}

// A dump of the dump keeps nesting, threads, processes, times, outcomes and facets.
TEST(OpenTrace, JsonLinesRoundTrip) {
  FakeTrace fake({{"role", "main"}, {"pid", 1234}});
  fake.AddProcess({{"role", "fork"}});
  fake.process(0).path = "out/log/main-1234.ttlog";
  fake.process(1).path = "out/log/fork-1235.ttlog";
  fake.Call(MakeConfig(1, "first"));  // gets a line before anything else is read
  const std::string facets("\1\0\3\1P", 5);
  fake.Enter(MakeConfig(1, "a", {TensorValue({2, 3})}), facets);
  fake.In(1, 3);
  fake.Enter(MakeConfig(1, "b", {TextValue(",\"level\":7")}));
  fake.In(0, 0);
  fake.Enter(MakeConfig(2, "aten::c"));
  fake.Wait(5000);
  fake.Raise("ValueError");
  fake.In(1, 3);
  fake.Leave();
  fake.Enter(MakeConfig(1, "never"));
  fake.Call(MakeConfig(0, "inside"));
  fake.In(0, 0);
  fake.Leave();
  AddExampleCalls(&fake);
  for (const uint64_t waiting : {uint64_t{1}, kMaxWaitingCalls}) {
    DumpOptions options;
    options.format = DumpFormat::kJsonl;
    std::ostringstream first, second, third;
    ASSERT_TRUE(WriteDump(&fake, options, &first).ok());
    options.max_waiting_calls = waiting;
    ASSERT_TRUE(WriteDump(&fake, options, &second).ok());
    EXPECT_EQ(first.str() == second.str(), waiting == kMaxWaitingCalls);
    const auto trace = Open(Write("dump.jsonl", second.str()));
    options.max_waiting_calls = kMaxWaitingCalls;
    ASSERT_NE(trace, nullptr);
    const absl::Status dumped = WriteDump(trace.get(), options, &third);
    ASSERT_TRUE(dumped.ok()) << dumped;
    EXPECT_EQ(third.str(), first.str());
    EXPECT_EQ(trace->processes()[0].metadata->at("pid"), 1234);
    EXPECT_EQ(trace->processes()[1].threads.at(0).number, 3u);
  }
}

// They tell of calls, and are none.
TEST(OpenTrace, JsonLinesWithLaterNotes) {
  const auto trace = Open(Write("later.jsonl", R"({"later_of_call":3,"result_tensors":[{"position":0}]}
{"call":4,"outcome":"returned","level":1,"api":"torch.f","args":[],"kwargs":{}}
{"later_of_call":4,"tensors":[{"position":0}]}
)"));
  EXPECT_EQ(Configs(trace.get()), (Lines{"1 x1 torch.f()"}));
}

TEST(OpenTrace, FilesOfATraceWithoutCalls) {
  const std::string folder = testing::TempDir();
  for (const char* const name : {"api_statistics.yaml", "api_statistics.txt"}) {
    EXPECT_EQ(Error(Write(name, "apis: []\n")),
              absl::StrCat(folder, name, " holds counts, not calls; name the folder that it is in"));
  }
  EXPECT_EQ(Error(Write("run.json", "{}")),
            folder + "run.json holds what is known of a run, not calls; name the folder that it is in");
}

TEST(OpenTrace, JsonLinesOfOthers) {
  const auto trace = Open(Write("other.jsonl", R"({"api": "torch.f", "args": [1, [2], {"a": 3}], "calls": 4}
{"kwargs": {"b": {"level": 3,"level":4}}, "api": "aten::g","level":4}
{"api":"h","calls":2,"level":1}
{"api":"h","calls":3,"level":1}
)"));
  EXPECT_EQ(Configs(trace.get()), (Lines{"1 x4 torch.f(1, list[2], dict{\"a\": 3})",
                                         "4 x1 aten::g(b=dict{\"level\": 3, \"level\": 4})", "1 x5 h(...)"}));
  EXPECT_EQ(TraceNotes(*trace).size(), 1u);
  const std::string folder = testing::TempDir();
  EXPECT_EQ(Error(Write("bad.jsonl", "{\"api\": \"f\"}\n{\"api\": 3}\n")),
            folder + "bad.jsonl line 2, api: expected the API's name, found 3");
  EXPECT_EQ(Error(Write("bad2.jsonl", "{\"api\": \"f\", \"depth\": -1}\n")),
            folder + "bad2.jsonl line 1, depth: expected a whole number, found -1");
  EXPECT_TRUE(Error(Write("bad3.jsonl", "{\"api\": \"f\"}\n{\"api\": \"f"))
                  .starts_with(folder + "bad3.jsonl line 2, offset 11: expected JSON: "));
}

TEST(OpenTrace, TorchBench) {
  const auto trace = Open(Write("bench.txt", R"(Operator: aten.addmm.default
cnt: 48, ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})
cnt: 0, ((T([4, 128], b8),), {'dtype': f16, 'device': 'cuda'})
Operator: aten.sum.SymInt
cnt: 2, ((T([2, 3], f32, [1, 2]), [1],), {})
Operator: torchvision.nms.default
cnt: 1, ((), {})
)"));
  EXPECT_EQ(Configs(trace.get()),
            (Lines{"2 x48 aten::addmm(Tensor([768], \"float16\"), Tensor([512, 768], \"float16\"), Tensor([768, 768], "
                   "\"float16\", stride=[1, 768]))",
                   "2 x1 aten::addmm(Tensor([4, 128], \"bool\"), dtype=torch.float16, device=\"cuda\")",
                   "2 x2 aten::sum.dim_IntList(Tensor([2, 3], \"float32\", stride=[1, 2]), list[1])",
                   "2 x1 torchvision::nms()"}));
  EXPECT_EQ(TraceNotes(*trace).back(), "1 configuration with cnt: 0 (synthetic): each counts as one call");
  const std::string folder = testing::TempDir();
  EXPECT_EQ(Error(Write("bench1.txt", "Operator: aten.f.default\ncnt: 1, ((?,), {})\n")),
            folder + "bench1.txt line 2, column 11: expected a value, found \"?,), {})\"");
  EXPECT_EQ(Error(Write("bench2.txt", "Operator: aten.f.default\nrows: 1\n")),
            folder + "bench2.txt line 2, column 1: expected \"Operator: \" or \"cnt: \"");
}

TEST(OpenTrace, TritonBench) {
  const auto trace = Open(Write("triton.json", R"x({"metadata": {"a": [{"count": "x"}]},
    "aten._foreach_add.List": [{"count": 3, "inputs": "(([T([8], f32)], [T([8], f32)]), {})"},
                               {"inputs": "((), {})", "count": 0, "why": null}],
    "aten.relu.default": [], "aten.relu_.default": [{"inputs": "((1,), {'a': 2})"}]})x"));
  EXPECT_EQ(Configs(trace.get()),
            (Lines{"2 x3 aten::_foreach_add.List(list[Tensor([8], \"float32\")], list[Tensor([8], \"float32\")])",
                   "2 x1 aten::_foreach_add.List()", "2 x1 aten::relu_(1, a=2)"}));
  // Sizes by name, as text.
  const auto named = Open(Write("named.json", R"x({
    "gemm": [{"count": 1, "duration_ms": 0.5, "inputs":
              "((), {'M': '192', 'N': '512', 'K': '64', 'strides': '((64, 1), (1, 64))', 'dtype': 'bf16'})"}],
    "addmm": [{"count": 2, "inputs":
               "((), {'M': 4, 'N': 8, 'K': 2, 'strides': ((0, 1), (2, 1), (8, 1)), 'dtype': 'fp32'})"},
              {"count": 1, "inputs": "((), {'M': '4', 'N': '8', 'K': '2', 'bias': '(8,)', 'dtype': 'fp8'})"}],
    "fp8_gemm": [{"count": 1, "inputs": "((), {'M': '192', 'N': '512', 'K': '64'})"}],
    "grouped_gemm": [{"count": 1, "inputs": "((), {'A_list': ['(2, 3)', [4, 3]], 'B': '(3, 5)'})"}],
    "flash_attention": [{"count": 1, "inputs": "((), {'BATCH': '8', 'scale': '0.5', 'dtype': 'bf16'})"}],
    "gemm_of_others": [{"count": 1, "inputs": "((T([2], f32),), {'M': '192'})"}],
    "aten.f.default": [{"count": 1, "inputs": "((), {'mode': '192'})"}]})x"));
  EXPECT_EQ(Configs(named.get()),
            (Lines{R"(1 x1 gemm(Tensor([192, 64], "bfloat16"), Tensor([64, 512], "bfloat16", stride=[1, 64])))",
                   R"(1 x2 addmm(Tensor([4, 8], "float32", stride=[0, 1]), Tensor([4, 2], "float32"), )"
                   R"(Tensor([2, 8], "float32")))",
                   R"(1 x1 addmm(Tensor([8], "unknown"), Tensor([4, 2], "unknown"), Tensor([2, 8], "unknown")))",
                   R"(1 x1 fp8_gemm(Tensor([192, 64], "unknown"), Tensor([64, 512], "unknown")))",
                   R"(1 x1 grouped_gemm(list[Tensor([2, 3], "unknown"), Tensor([4, 3], "unknown")], )"
                   R"(Tensor([3, 5], "unknown")))",
                   R"(1 x1 flash_attention(BATCH=8, scale=0.5, dtype="bf16"))",
                   R"(1 x1 gemm_of_others(Tensor([2], "float32"), M="192"))", R"(2 x1 aten::f(mode="192"))"}));
  EXPECT_EQ(TraceNotes(*named).at(1), "1 configuration with sizes by name: which tensors have them isn't known");
  const std::string folder = testing::TempDir();
  EXPECT_EQ(Error(Write("triton1.json", R"x({"aten.f.default": [{"count": 1, "inputs": "((?), {})"}]})x")),
            folder + "triton1.json \"aten.f.default\" item 1: inputs, column 3: expected a value, found \"?), {})\"");
  EXPECT_EQ(Error(Write("triton2.json", R"x({"aten.f.default": [{"count": 1}]})x")),
            folder + "triton2.json \"aten.f.default\" item 1: expected a member \"inputs\"");
  EXPECT_TRUE(Error(Write("triton3.json", R"x({"aten.f.default": [{"count": 1, "inputs": "((), )x"))
                  .starts_with(folder + "triton3.json offset "));
}

TEST(OpenTrace, Folders) {
  const std::string folder = testing::TempDir();
  std::filesystem::remove_all(folder + "folder");
  Write("folder/api_configs.txt", "f(1)\n");
  EXPECT_EQ(Configs(Open(folder + "folder").get()), (Lines{"1 x1 f(1)"}));
  Write("folder/api_trace.yaml", "- api: g\n");
  EXPECT_EQ(Configs(Open(folder + "folder/").get()), (Lines{"1 x1 g(...)"}));
  std::filesystem::create_directories(folder + "nothing");
  const std::string nothing = Error(folder + "nothing");
  EXPECT_TRUE(nothing.starts_with(folder + "nothing holds no trace: expected logs named " + folder +
                                  "nothing/log/*.ttlog, or api_trace.yaml or api_trace.txt in it; name a folder that "))
      << nothing;
}

TEST(OpenTrace, WhatIsNoTrace) {
  const std::string folder = testing::TempDir();
  EXPECT_EQ(Error(folder + "none.txt"), "cannot read " + folder + "none.txt: No such file or directory");
  EXPECT_EQ(Error(Write("e/empty.txt", "")), folder + "e/empty.txt is empty; expected a trace");
  const std::string noise = Error(Write("e/noise.txt", std::string("\x00\x01\xff\xfe noise \x07", 12)));
  EXPECT_TRUE(noise.starts_with(folder + "e/noise.txt is not a trace; expected a torchtrace log, ")) << noise;
  for (const Importer* const importer : Importers()) {
    EXPECT_NE(noise.find(importer->expected), std::string::npos) << importer->name;
  }
  EXPECT_TRUE(Error(Write("e/prose.txt", "Dear reader,\nthis is none (sorry).\n")).find("is not a trace") !=
              std::string::npos);
  EXPECT_TRUE(Error(Write("e/x.json.gz", "\x1f\x8b\x08zzz")).find("is compressed by gzip and damaged") !=
              std::string::npos);
  EXPECT_TRUE(Error(Write("e/cut.ttlog", "TTLOG\r\n\x1a")).find("e/cut.ttlog") != std::string::npos);
}

// Each importer recognizes its own seeds under any file name.
TEST(OpenTrace, FormatsAreToldByTheirFirstBytes) {
  int files = 0;
  for (const Importer* const importer : Importers()) {
    const std::filesystem::path seeds = std::filesystem::path("testdata/fuzz") / importer->name;
    if (!std::filesystem::exists(seeds)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(seeds)) {
      if (entry.path().filename().string().starts_with("bug")) continue;
      ++files;
      std::ifstream file(entry.path(), std::ios::binary);
      std::ostringstream content;
      content << file.rdbuf();
      const std::string head = content.str().substr(0, kFileHeadBytes);
      const Importer* found = nullptr;
      for (const Importer* const other : Importers()) {
        if (found == nullptr && other->sniff({head, "x"})) found = other;
      }
      EXPECT_EQ(found, importer) << entry.path();
    }
  }
  EXPECT_GE(files, 8);
}

}  // namespace
}  // namespace torchtrace
