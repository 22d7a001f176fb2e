#include "serialize/model/graph_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "serialize/model/config.h"
#include "serialize/model/levels.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

GraphCall Read(int level, const std::string& api, std::vector<std::pair<std::string, Value>> kwargs = {}) {
  return ReadGraphCall(EncodeConfig(MakeConfig(level, api, {}, std::move(kwargs))));
}

TEST(GraphCalls, AreReadAsTheyAreNamed) {
  for (const GraphCallKind kind :
       {GraphCallKind::kRun, GraphCallKind::kBackwardRun, GraphCallKind::kCompilation,
        GraphCallKind::kBackwardCompilation, GraphCallKind::kRecompiled, GraphCallKind::kBreak}) {
    const GraphCall call = Read(kFrameLevel, GraphCallApi(kind, "!0/1/2", "f"),
                                {{"file", TextValue("a.py")}, {"line", IntValue(7)}, {"reason", TextValue("size: 3")}});
    EXPECT_EQ(call.kind, kind);
    EXPECT_EQ(call.id, "!0/1/2");
    EXPECT_EQ(call.function, "f");
    EXPECT_EQ(call.file, "a.py");
    EXPECT_EQ(call.line, 7);
    EXPECT_EQ(call.reason, "size: 3");
    EXPECT_FALSE(GraphCallName(kind).empty());
  }
}

TEST(GraphCalls, OfAnUnknownFunction) {
  const GraphCall call = Read(kFrameLevel, GraphCallApi(GraphCallKind::kBackwardRun, "3/0", ""));
  EXPECT_EQ(call.id, "3/0");
  EXPECT_EQ(call.function, "");
  EXPECT_EQ(call.line, 0);
}

TEST(GraphCalls, OtherCallsAreNone) {
  EXPECT_EQ(Read(kFrameLevel, "f").kind, GraphCallKind::kNone);
  EXPECT_EQ(Read(kFunctionLevel, "Compiled graph 1/0: f").kind, GraphCallKind::kNone);
}

}  // namespace
}  // namespace torchtrace
