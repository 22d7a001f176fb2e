#include "replay/replay.h"

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/import/open_trace.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

std::string TempFile(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

// The items that Next returns for a file.
std::vector<ReplayItem> Items(ReplayPlan* plan, const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenTrace(path);
  EXPECT_TRUE(trace.ok()) << trace.status();
  EXPECT_TRUE(plan->Open(trace->get()).ok());
  std::vector<ReplayItem> items;
  for (ReplayItem item; plan->Next(&item);) items.push_back(item);
  return items;
}

TEST(ReplayPlanTest, EachConfigOnceOverTraces) {
  const std::string a = TempFile("a.txt", "torch.relu(1)\ntorch.relu(2)\ntorch.relu(1)\ntorch.add(1)\n");
  const std::string b = TempFile("b.txt", "torch.relu(3)\ntorch.relu(2)\ntorch.add(2)\n");
  CallSelection selection;
  selection.filter.include = {"torch.relu"};
  ReplayPlan plan(selection);
  const std::vector<ReplayItem> first = Items(&plan, a), second = Items(&plan, b);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].line, "torch.relu(1)");
  EXPECT_EQ(first[1].line, "torch.relu(2)");
  EXPECT_EQ(plan.configs(), 2u);  // of the second file
  EXPECT_EQ(plan.looked_at(), 2u);
  EXPECT_NE(first[0].key, first[1].key);
  const auto request = nlohmann::json::parse(first[0].request);
  EXPECT_EQ(request["api"], "torch.relu");
  EXPECT_EQ(request["args"], nlohmann::json::array({1}));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].line, "torch.relu(3)");
}

TEST(ReplayPlanTest, WhatTheFirstCallThatReturnedHad) {
  FakeTrace trace;
  const Config config = MakeConfig(1, "torch.take", {TensorValue({5}), TensorValue({2})});
  const auto range = [](int64_t most) {
    std::string notes;
    AppendTensorNote({.position = 1, .range = TensorNote::Range{0, most}}, &notes);
    return notes;
  };
  trace.Enter(config, "", range(9));
  trace.Raise("IndexError");
  trace.Enter(config, "", range(4));
  trace.Return({TensorValue({2})});
  trace.Enter(config, "", range(3));
  trace.Return({TensorValue({7})});
  trace.Enter(MakeConfig(1, "torch.relu", {TensorValue({5})}), "", range(1));
  trace.Raise("RuntimeError");
  ReplayPlan plan({});
  ASSERT_TRUE(plan.Open(&trace).ok());
  ReplayItem item;
  ASSERT_TRUE(plan.Next(&item));
  EXPECT_EQ(item.recorded, "");
  auto request = nlohmann::json::parse(item.request);
  EXPECT_EQ(request["notes"][0]["max"], 4);
  EXPECT_EQ(request["outputs"][0]["shape"], nlohmann::json::array({2}));
  ASSERT_TRUE(plan.Next(&item));
  EXPECT_EQ(item.recorded, "RuntimeError");
  request = nlohmann::json::parse(item.request);
  EXPECT_EQ(request["notes"][0]["max"], 1);
  EXPECT_FALSE(request.contains("outputs"));
  EXPECT_FALSE(plan.Next(&item));
  EXPECT_TRUE(plan.status().ok());
}

TEST(ReplayTest, Judge) {
  const auto differs = [](const std::string& recorded, const ReplayAnswer& answer) {
    ReplayItem item;
    item.recorded = recorded;
    return Judge(item, answer).differs;
  };
  const ReplayAnswer raised = {
      .result = "raised", .reason = "", .raised = {"_LinAlgError", "RuntimeError", "Exception"}};
  EXPECT_FALSE(differs("", {.result = "ok"}));
  EXPECT_TRUE(differs("", {.result = "ok", .difference = "result: shape [2], recorded [3]"}));
  EXPECT_TRUE(differs("RuntimeError", {.result = "ok"}));
  EXPECT_TRUE(differs("", raised));
  EXPECT_FALSE(differs("RuntimeError", raised));
  EXPECT_FALSE(differs("torch._C._LinAlgError", raised));
  EXPECT_TRUE(differs("ValueError", raised));
  EXPECT_TRUE(differs("", {.result = "crashed"}));
  EXPECT_TRUE(differs("RuntimeError", {.result = "timeout"}));
  EXPECT_FALSE(differs("", {.result = "skipped"}));
}

TEST(ResultStoreTest, ReportsGoByPlace) {
  const auto store = ResultStore::Open("", "seed 0");
  ASSERT_TRUE(store.ok()) << store.status();
  const uint64_t first = (*store)->Reserve();
  (*store)->Reserve();  // no result follows
  const uint64_t last = (*store)->Reserve();
  ReplayResult result;
  for (const uint64_t place : {last, first}) {
    result.key = result.config = std::to_string(place);
    result.result = "ok";
    EXPECT_TRUE((*store)->Add(result, place).ok());
  }
  std::ostringstream out;
  ReplaySummary summary;
  ASSERT_TRUE(WriteReplayReport(**store, {.format = ReplayFormat::kCsv}, &out, &summary).ok());
  EXPECT_EQ(summary.configs, 2u);
  EXPECT_LT(out.str().find("\n0,"), out.str().find("\n2,")) << out.str();
}

TEST(ResultStoreTest, GoesOnBehindWhatIsWhole) {
  const std::string path = testing::TempDir() + "/results.jsonl";
  std::remove(path.c_str());
  ReplayResult result;
  for (const char* const key : {"a", "b"}) {
    const auto store = ResultStore::Open(path, "seed 0");
    ASSERT_TRUE(store.ok()) << store.status();
    result.key = key;
    result.config = "torch.relu(\"<&>\")";
    result.result = "ok";
    EXPECT_TRUE((*store)->Add(result, (*store)->Reserve()).ok());
    EXPECT_EQ((*store)->Reuse("a"), *key == 'b');
  }
  std::ofstream(path, std::ios::app) << "{\"key\": \"c\", \"con";
  const auto store = ResultStore::Open(path, "seed 0");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_TRUE((*store)->Reuse("a"));
  EXPECT_TRUE((*store)->Reuse("b"));
  EXPECT_FALSE((*store)->Reuse("c"));
  EXPECT_EQ((*store)->reused(), 2u);
  std::ostringstream out;
  ReplaySummary summary;
  ASSERT_TRUE(WriteReplayReport(**store, {.format = ReplayFormat::kJunit}, &out, &summary).ok());
  EXPECT_EQ(summary.configs, 2u);
  EXPECT_NE(out.str().find("name=\"torch.relu(&quot;&lt;&amp;&gt;&quot;)\""), std::string::npos) << out.str();
  EXPECT_FALSE(ResultStore::Open(TempFile("other.jsonl", "text\n"), "seed 0").ok());
  EXPECT_FALSE(ResultStore::Open(TempFile("other.jsonl", "text"), "seed 0").ok());
  // The process died while it wrote the first line.
  EXPECT_TRUE(ResultStore::Open(TempFile("begun.jsonl", "{\"torchtrace_re"), "seed 0").ok());
}

TEST(ResultStoreTest, WhatNobodyWroteIsDamaged) {
  const std::string good =
      R"({"key":"a","config":"f","level":1,"result":"ok","recorded":"","reason":"","seconds":1,"differs":false})";
  std::string text = "{\"torchtrace_replay\":\"seed 0\"}\n" + good + "\n";
  const std::pair<std::string, std::string> forged[] = {
      {"\"a\"", "[]"},        {":1,\"re", ":9,\"re"}, {":1,\"re", ":-1,\"re"}, {"\"ok\"", "1"},
      {"\"ok\"", "\"fine\""}, {"false", "0"},         {"\"f\"", "{}"}};
  for (const auto& [from, to] : forged) {
    std::string line = good;
    text += line.replace(line.find(from), from.size(), to) + "\n";
  }
  const auto store = ResultStore::Open(TempFile("forged.jsonl", text + "[]\n1\n\n"), "seed 0");
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->damaged(), std::size(forged) + 3);
  EXPECT_TRUE((*store)->Reuse("a"));
}

}  // namespace
}  // namespace torchtrace
