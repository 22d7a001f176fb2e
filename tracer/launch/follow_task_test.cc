#include "tracer/launch/follow_task.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace torchtrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

FollowTask Sample() {
  FollowTask task;
  task.run = NewRunId();
  task.runtimes = {{"3.11", "/opt/a b/libtorchtrace_runtime.so"}, {"3.12", "/opt/c.so"}};
  task.only = {"*train.py*"};
  task.variables = {"TORCH"};
  task.metadata_json = R"({"levels": [1], "self_test": {"failed": []}, "command": ["torchtrace", "run"]})";
  task.ending.folder = "/tmp/\xff out";
  task.ending.shown_name = "out\n";
  task.ending.recording.levels = {1};
  return task;
}

TEST(FollowTaskTest, IsReadAsItWasWritten) {
  const FollowTask task = Sample();
  const std::string text = FormatFollowTask(task);
  EXPECT_THAT(text, StartsWith("torchtrace "));
  EXPECT_THAT(text, HasSubstr("\nruntime 3.11 /opt/a b/libtorchtrace_runtime.so\nruntime 3.12 /opt/c.so\n"));
  EXPECT_THAT(text, HasSubstr("\nonly *train.py*\n\n{"));
  const FollowTask read = ParseFollowTask(text).value();
  EXPECT_EQ(read.run, task.run);
  EXPECT_EQ(read.variables, task.variables);
  EXPECT_EQ(read.ending.folder, task.ending.folder);
  EXPECT_EQ(read.ending.shown_name, task.ending.shown_name);
  EXPECT_EQ(read.ending.recording.levels, task.ending.recording.levels);
}

TEST(FollowTaskTest, DamageIsAnError) {
  const std::string text = FormatFollowTask(Sample());
  for (size_t bytes = 0; bytes + 2 < text.size(); ++bytes) {
    EXPECT_FALSE(ParseFollowTask(text.substr(0, bytes)).ok()) << bytes;
  }
}

TEST(FollowTaskTest, RunsHaveDifferentIds) { EXPECT_NE(NewRunId(), NewRunId()); }

TEST(FollowTaskTest, AChildHasItsOwnMetadata) {
  const auto json = nlohmann::json::parse(FormatFollowedMetadata(Sample(), {"python", "-c", "pass"}, "3.12.1"));
  EXPECT_EQ(json["command"], (std::vector<std::string>{"python", "-c", "pass"}));
  EXPECT_EQ(json["program"], (std::vector<std::string>{"-c", "pass"}));
  EXPECT_EQ(json["python"]["version"], "3.12.1");
  EXPECT_EQ(json["levels"], std::vector<int>{1});
  EXPECT_FALSE(json.contains("self_test"));
}

}  // namespace
}  // namespace torchtrace
