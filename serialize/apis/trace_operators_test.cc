#include "serialize/apis/trace_operators.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "serialize/testing/fake_trace.h"
#include "serialize/trace/operator_metadata.h"

namespace torchtrace {
namespace {

using nlohmann::json;

json Metadata(const std::string& version, const json& operators = nullptr) {
  json metadata = {{"packages", {{"torch", {{"version", version}}}}}};
  if (!operators.is_null()) metadata["operators"] = operators;
  return metadata;
}

std::vector<std::string> Names(const ApiList& list) {
  std::vector<std::string> names;
  for (const ApiEntry& entry : list.apis) names.push_back(entry.name);
  return names;
}

TEST(TraceOperators, OncePerVersion) {
  const json operators = FormatOperators({"aten::mm", "prims::add", "aten::add.Tensor", "odd"});
  EXPECT_EQ(operators, (json{{"aten", "add.Tensor mm"}, {"prims", "add"}}));
  FakeTrace trace(Metadata("2.13.0"));
  trace.AddProcess(Metadata("2.12.0", {{"aten", "gone mm"}}));
  trace.AddProcess(Metadata("2.13.0", operators));
  trace.AddProcess({{"packages", {{"torch", "2.11.0"}}}});
  EXPECT_EQ(*FindOperators(trace, trace.processes()[0]), operators);
  EXPECT_EQ(FindOperators(trace, trace.processes()[1])->at("aten"), "gone mm");
  EXPECT_EQ(FindOperators(trace, trace.processes()[3]), nullptr);
  EXPECT_EQ(TorchVersions(trace), (std::set<std::string>{"2.11.0", "2.12.0", "2.13.0"}));
  ApiList list;
  ASSERT_TRUE(AddOperators(trace, "t", "aten", &list).ok());
  EXPECT_EQ(Names(list), (std::vector<std::string>{"aten::add.Tensor", "aten::gone", "aten::mm"}));
  EXPECT_EQ(list.version, "2.13.0");
}

TEST(TraceOperators, Missing) {
  const FakeTrace trace(Metadata("2.13.0"));
  ApiList list;
  const absl::Status status = AddOperators(trace, "old", "aten", &list);
  EXPECT_EQ(status.message().substr(0, 60), "old does not tell which operators its PyTorch had: it is no ");
  EXPECT_EQ(TorchVersion(json{{"packages", {{"torch", "2.11.0"}}}}), "2.11.0");
  EXPECT_EQ(TorchVersion(json{{"packages", 1}}), "");
  EXPECT_EQ(TorchVersion(json()), "");
}

}  // namespace
}  // namespace torchtrace
