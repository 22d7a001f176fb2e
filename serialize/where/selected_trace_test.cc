#include "serialize/where/selected_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;

// The calls that notes came later of.
std::vector<uint64_t> LaterCalls(Trace* trace) {
  std::vector<uint64_t> calls;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    if (record.kind == CallRecord::kLater) calls.push_back(record.call);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return calls;
}

std::unique_ptr<Trace> Select(CallSelection selection) {
  auto fake = std::make_unique<FakeTrace>();
  fake->Call(MakeConfig(1, "torch.f"));
  fake->Call(MakeConfig(2, "aten::g"));
  fake->In(0, 1);
  fake->Call(MakeConfig(2, "aten::g"));
  for (const uint64_t call : {2, 1, 0}) fake->Later(call, LaterOf::kResult, "notes");
  return std::make_unique<SelectedTrace>(std::move(fake), std::move(selection));
}

TEST(SelectedTrace, LaterNotesOfSelectedCalls) {
  CallSelection by_config, by_call;
  by_config.levels = {2};
  by_call.where = Where::Parse("thread = 0 and duration > 0").value();
  const auto of_configs = Select(by_config), of_calls = Select(by_call);
  EXPECT_THAT(LaterCalls(of_configs.get()), ElementsAre());
  {
    const LaterNotesShown shown(of_configs.get()), shown_too(of_calls.get());
    EXPECT_THAT(LaterCalls(of_configs.get()), ElementsAre(2, 1));
    EXPECT_THAT(LaterCalls(of_calls.get()), ElementsAre(1, 0));
  }
  EXPECT_THAT(LaterCalls(of_configs.get()), ElementsAre());
}

// The numbers of the calls that pass.
absl::StatusOr<std::vector<uint64_t>> AfterSteps(uint64_t steps, ProcessMetadata known, StepKind kind) {
  auto fake = std::make_unique<FakeTrace>();
  fake->process(0).known = std::move(known);
  // Before the first one, in three, and after them.
  for (uint64_t number = 0; number <= 4; ++number) {
    StepMarks marks;
    if (kind != StepKind::kTag) marks.at(kind) = {number, static_cast<int64_t>(100 * number)};
    fake->Tag(WithStepMarks("", marks));
    fake->Call(MakeConfig(1, "torch.f"));
  }
  CallSelection selection;
  selection.skip_steps = steps;
  SelectedTrace trace(std::move(fake), std::move(selection));
  std::vector<uint64_t> calls;
  const absl::Status read = trace.Read([&](const CallRecord& record) {
    if (record.kind == CallRecord::kEnter) calls.push_back(record.call);
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return calls;
}

TEST(SelectedTrace, SkipsStepsAndWhatIsBeforeThem) {
  ProcessMetadata ended, killed;
  ended.steps_by = killed.steps_by = StepKind::kStep;
  ended.last_steps.at(StepKind::kStep) = {4, 400};
  EXPECT_THAT(*AfterSteps(1, ended, StepKind::kStep), ElementsAre(2, 3, 4));
  EXPECT_THAT(*AfterSteps(3, ended, StepKind::kStep), ElementsAre(4));
  EXPECT_THAT(*AfterSteps(4, ended, StepKind::kStep), ElementsAre());
  EXPECT_THAT(*AfterSteps(3, killed, StepKind::kStep), ElementsAre(4));
}

TEST(SelectedTrace, SkipsOnlyStepsThatThereAre) {
  // Only the calls have steps.
  EXPECT_THAT(*AfterSteps(2, ProcessMetadata(), StepKind::kForward), ElementsAre(3, 4));
  const absl::Status none = AfterSteps(2, ProcessMetadata(), StepKind::kTag).status();
  EXPECT_THAT(std::string(none.message()), testing::StartsWith("--skip-steps: the trace has no steps"));
}

}  // namespace
}  // namespace torchtrace
