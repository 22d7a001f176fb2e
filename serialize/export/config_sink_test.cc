#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/export/exporter.h"
#include "serialize/model/config.h"
#include "serialize/model/value.h"
#include "serialize/testing/fake_trace.h"
#include "yaml-cpp/yaml.h"

namespace torchtrace {
namespace {

std::string AddConfig() {
  return EncodeConfig(MakeConfig(1, "torch.add", {TensorValue({2, 3}), IntValue(1)}, {{"alpha", IntValue(10)}}));
}
std::string Mm(int64_t rows, const std::string& device = "cpu") {
  Value tensor = TensorValue({rows, 3});
  tensor.device = device;
  return EncodeConfig(MakeConfig(2, "aten::mm", {tensor, TensorValue({3, 3})}));
}
std::string Abs() { return EncodeConfig(MakeConfig(2, "aten::abs", {TensorValue({2})})); }
std::string OddName() { return EncodeConfig(MakeConfig(1, "a,\"b\"", {TextValue("x\ny")})); }

struct Written {
  std::string text;
  std::vector<std::string> notes;
};

Written Write(const char* format, const std::vector<ConfigRow>& rows, const ExportOptions& options = {}) {
  std::ostringstream out;
  auto sink = MakeConfigSink(**FindExporter(format), &out, options);
  EXPECT_TRUE(sink.ok()) << sink.status();
  for (const ConfigRow& row : rows) EXPECT_TRUE((*sink)->Add(row).ok());
  EXPECT_TRUE((*sink)->Finish().ok());
  return {out.str(), (*sink)->notes()};
}

TEST(Exporters, AreFoundByNameAndSuffix) {
  for (const Exporter* const exporter : Exporters()) {
    EXPECT_EQ(*FindExporter(exporter->name), exporter);
    EXPECT_NE(ExporterNames().find(exporter->name), std::string::npos);
    EXPECT_NE(exporter->help, nullptr) << exporter->name;
    // What an exporter without `write` would have.
    const auto* const configs = std::get_if<WritesConfigs>(&exporter->write);
    EXPECT_TRUE(configs == nullptr || configs->make != nullptr) << exporter->name;
  }
  EXPECT_FALSE(FindExporter("xml").ok());
  EXPECT_STREQ((*FindExporterOfFile("a.d/b.JSONL"))->name, "jsonl");
  EXPECT_STREQ((*FindExporterOfFile("x.yml"))->name, "yaml");
  EXPECT_STREQ((*FindExporterOfFile("x.txt"))->name, "text");
  EXPECT_STREQ((*FindExporterOfFile("x.html"))->name, "flamegraph");
  const absl::Status no_configs =
      FindExporterOfFile("x.html", [](const Exporter& exporter) { return exporter.HoldsConfigs(); }).status();
  EXPECT_TRUE(std::string(no_configs.message()).ends_with(".csv, .parquet")) << no_configs;
  std::set<std::string> suffixes;
  for (const Exporter* const exporter : Exporters()) {
    for (const char* const suffix : exporter->suffixes) {
      EXPECT_TRUE(suffix == nullptr || suffixes.insert(suffix).second) << suffix;
    }
  }
  for (const char* const name : {"x", "a.csv/b", ".csv", "x.xml", "x.", ""}) {
    EXPECT_FALSE(FindExporterOfFile(name).ok()) << name;
  }
}

TEST(Exporters, AreNamed) {
  EXPECT_EQ(ExporterNames([](const Exporter& exporter) { return exporter.HoldsTables(); }), "jsonl, csv and parquet");
  EXPECT_EQ(ExporterNames([](const Exporter& exporter) { return exporter.provenance == Provenance::kWhenAsked; }),
            "text, yaml and json");
}

TEST(TextSink, WritesLines) {
  const std::string add = AddConfig(), odd = OddName();
  const std::vector<ConfigRow> rows = {{.identity = add, .calls = 12}, {.identity = odd}};
  EXPECT_EQ(Write("text", rows).text,
            "torch.add(Tensor([2, 3], \"float32\"), 1, alpha=10)\n\"a,\\\"b\\\"\"(\"x\\ny\")\n");
  EXPECT_EQ(Write("text", rows, {.counts = true}).text,
            "     12  torch.add(Tensor([2, 3], \"float32\"), 1, alpha=10)\n      1  \"a,\\\"b\\\"\"(\"x\\ny\")\n");
}

TEST(TextSink, ShowsWhatCannotBeRead) {
  EXPECT_NE(Write("text", {{.identity = "\x01"}}).text.find("unreadable"), std::string::npos);
}

TEST(YamlSink, IsAList) {
  const std::string add = AddConfig();
  const YAML::Node list =
      YAML::Load(Write("yaml", {{.identity = add, .calls = 3}, {.identity = add, .trace = "a: b", .rank = 0}}).text);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["api"].as<std::string>(), "torch.add");
  EXPECT_EQ(list[0]["calls"].as<int>(), 3);
  EXPECT_EQ(list[0]["level"].as<int>(), 1);
  EXPECT_FALSE(list[0]["trace"].IsDefined());
  EXPECT_EQ(list[1]["trace"].as<std::string>(), "a: b");
  EXPECT_EQ(list[1]["rank"].as<int>(), 0);
  EXPECT_EQ(Write("yaml", {}).text, "[]\n");
}

TEST(JsonSink, IsAListAndJsonlItsElements) {
  const std::string add = AddConfig(), mm = Mm(2);
  const std::vector<ConfigRow> rows = {
      {.identity = add, .calls = 3, .time_ns = 70, .trace = "out", .host = "h", .pid = 12, .rank = 0},
      {.identity = mm}};
  const auto list = nlohmann::json::parse(Write("json", rows).text);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["api"], "torch.add");
  EXPECT_EQ(list[0]["kwargs"]["alpha"], 10);
  EXPECT_EQ(list[0]["shapes"].dump(), "[[2,3]]");
  EXPECT_EQ(list[0]["dtypes"].dump(), "[\"float32\"]");
  EXPECT_EQ(list[0]["calls"], 3);
  EXPECT_EQ(list[0]["time_ns"], 70);
  EXPECT_EQ(list[0]["trace"], "out");
  EXPECT_EQ(list[0]["host"], "h");
  EXPECT_EQ(list[0]["pid"], 12);
  EXPECT_EQ(list[0]["rank"], 0);
  EXPECT_FALSE(list[1].contains("time_ns"));
  EXPECT_FALSE(list[1].contains("rank"));
  std::istringstream lines(Write("jsonl", rows).text);
  std::string line;
  for (const auto& element : list) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_EQ(nlohmann::json::parse(line), element);
  }
  EXPECT_FALSE(std::getline(lines, line));
  EXPECT_EQ(Write("json", {}).text, "[]\n");
}

TEST(JsonSink, ShowsFacets) {
  const std::string add = AddConfig();
  // One facet: tensor 0, requires grad.
  const auto list =
      nlohmann::json::parse(Write("json", {{.identity = add, .facets = std::string_view("\x01\x00\x01", 3)}}).text);
  EXPECT_EQ(list[0]["args"][0]["requires_grad"], true);
}

TEST(CsvSink, QuotesWhereItMust) {
  const std::string odd = OddName(), abs = Abs();
  EXPECT_EQ(
      Write("csv", {{.identity = odd, .calls = 2, .time_ns = 5, .trace = "a\nb", .host = "h", .pid = 1, .rank = 0},
                    {.identity = abs}})
          .text,
      "level,api,config,args,kwargs,shapes,dtypes,calls,time_ns,trace,host,pid,rank"
      ",module,file,line,tags,step,M,N,K,flops,bytes,device_ns,first_call\n"
      "1,\"\"\"a,\\\"\"b\\\"\"\"\"\",\"\"\"a,\\\"\"b\\\"\"\"\"(\"\"x\\ny\"\")\",\"[\"\"x\\ny\"\"]\",{},[],[],2,5,a\\nb,"
      "h,1,0,,,,,,,,,,,,\n"
      "2,aten::abs,\"aten::abs(Tensor([2], \"\"float32\"\"))\","
      "\"[{\"\"type\"\":\"\"torch.Tensor\"\",\"\"shape\"\":[2],\"\"dtype\"\":\"\"torch.float32\"\",\"\"device\"\":"
      "\"\"cpu\"\"}]\",{},"
      "[[2]],\"[\"\"float32\"\"]\",1,,,,,,,,,,,,,,,,,\n");
}

TEST(TorchBenchSink, GroupsByOperator) {
  const std::string add = AddConfig(), mm2 = Mm(2), mm4 = Mm(4), abs = Abs(), cuda = Mm(2, "cuda:1");
  const Written written = Write("torchbench", {{.identity = mm4, .calls = 2},
                                               {.identity = add, .calls = 9},
                                               {.identity = mm2, .calls = 3},
                                               {.identity = abs, .calls = 4},
                                               {.identity = cuda, .calls = 5}});
  EXPECT_EQ(written.text,
            "Operator: aten.abs.default\n"
            "cnt: 4, ((T([2], f32),), {})\n"
            "Operator: aten.mm.default\n"
            "cnt: 2, ((T([4, 3], f32), T([3, 3], f32)), {})\n"
            "cnt: 8, ((T([2, 3], f32), T([3, 3], f32)), {})\n");
  EXPECT_EQ(written.notes, std::vector<std::string>{"torchbench leaves out 1 config (9 calls): not of level 2"});
  EXPECT_EQ(Write("torchbench", {}).text, "");
}

TEST(TritonBenchSink, IsJson) {
  const std::string mm = Mm(2), abs = Abs(), add = AddConfig();
  const Written written = Write("tritonbench", {{.identity = mm, .calls = 3}, {.identity = abs}, {.identity = add}},
                                {.version = "1.2", .traces = {"a", "b"}});
  const auto expected = nlohmann::json::parse(R"json({
    "aten.abs.default": [{"count": 1, "inputs": "((T([2], f32),), {})"
}],
    "aten.mm.default": [{"count": 3, "inputs": "((T([2, 3], f32), T([3, 3], f32)), {})"}],
    "metadata": {"generator": "torchtrace 1.2", "traces": "a, b"}
})json");
  EXPECT_EQ(nlohmann::json::parse(written.text), expected);
  EXPECT_EQ(written.notes.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(Write("tritonbench", {}).text), nlohmann::json::parse(R"({"metadata": {}})"));
}

TEST(PaddleSink, WritesEachLineOnce) {
  const std::string add = AddConfig(), odd = OddName();
  const Written written = Write("paddle", {{.identity = add}, {.identity = odd, .calls = 2}, {.identity = add}});
  EXPECT_EQ(written.text, "torch.add(Tensor([2, 3],\"float32\"), 1, alpha=10, )\n");
  EXPECT_EQ(written.notes, std::vector<std::string>{"paddle leaves out 1 config (2 calls): a name that needs quotes"});
}

TEST(ConfigSink, TellsThatTheStreamFailed) {
  for (const Exporter* const exporter : Exporters()) {
    if (exporter->python_program != nullptr || !exporter->HoldsConfigs()) continue;
    std::ostream out(nullptr);
    auto sink = MakeConfigSink(*exporter, &out);
    ASSERT_TRUE(sink.ok());
    const std::string abs = Abs();
    const absl::Status added = (*sink)->Add({.identity = abs});
    EXPECT_FALSE(added.ok() && (*sink)->Finish().ok()) << exporter->name;
  }
}

}  // namespace
}  // namespace torchtrace
