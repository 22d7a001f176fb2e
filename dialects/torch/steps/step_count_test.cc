#include "dialects/torch/steps/step_count.h"

#include "gtest/gtest.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr int kThread = 0, kOther = 1;
constexpr int kFirst = 2, kSecond = 3;  // optimizers

struct Counted {
  explicit Counted(StepOn on)
      : count(
            on, [](const void* optimizer) { return optimizer == &kFirst; },
            [this](const StepMarks& now, bool by_step) {
              marks = now;
              decided = by_step;
            }) {}
  uint64_t forwards() const { return marks.at(StepKind::kForward).number; }
  uint64_t steps() const { return marks.at(StepKind::kStep).number; }
  void Forward() {
    if (count.BeginModule(&kThread)) count.End(&kThread, true);
  }
  void Step(const void* optimizer = &kFirst) {
    if (count.BeginStep(&kThread, optimizer)) count.End(&kThread, true);
  }

  StepMarks marks;
  bool decided = false;
  StepCount count;
};

TEST(StepCountTest, OptimizersDecideOnceOneHasStepped) {
  Counted at(StepOn::kAuto);
  at.Forward();
  EXPECT_EQ(at.forwards(), 2u);
  EXPECT_EQ(at.steps(), 0u);  // no optimizer was made: the first step has not begun
  at.count.SeeOptimizer();
  at.Forward();
  EXPECT_EQ(at.steps(), 1u);
  EXPECT_FALSE(at.decided);
  at.Step();
  EXPECT_EQ(at.steps(), 2u);
  EXPECT_TRUE(at.decided);
  at.Forward();
  at.Step(&kSecond);
  EXPECT_EQ(at.forwards(), 3u);
  EXPECT_EQ(at.steps(), 2u);
  EXPECT_GT(at.marks.at(StepKind::kStep).begin_ns, at.marks.at(StepKind::kForward).begin_ns);
}

TEST(StepCountTest, TheFirstStepBeginsBeforeAModulesCall) {
  Counted at(StepOn::kAuto);
  at.count.SeeModule();
  EXPECT_EQ(at.forwards(), 1u);
  const int64_t began = at.marks.at(StepKind::kForward).begin_ns;
  at.count.SeeModule();
  ASSERT_TRUE(at.count.BeginModule(&kThread));
  at.count.SeeModule();  // of a part
  EXPECT_EQ(at.forwards(), 1u);
  EXPECT_EQ(at.marks.at(StepKind::kForward).begin_ns, began);
}

TEST(StepCountTest, CallsInsideAndBesideEndNone) {
  Counted at(StepOn::kAuto);
  ASSERT_TRUE(at.count.BeginStep(&kThread, &kFirst));
  EXPECT_FALSE(at.count.BeginStep(&kThread, &kFirst));
  EXPECT_FALSE(at.count.BeginStep(&kOther, &kFirst));
  ASSERT_TRUE(at.count.BeginModule(&kThread));  // in a closure
  EXPECT_FALSE(at.count.BeginModule(&kOther));
  at.count.End(&kThread, true);
  EXPECT_EQ(at.steps(), 1u);
  at.count.End(&kThread, true);
  EXPECT_EQ(at.steps(), 2u);
}

TEST(StepCountTest, ACallThatRaisesEndsNone) {
  Counted at(StepOn::kAuto);
  ASSERT_TRUE(at.count.BeginStep(&kThread, &kFirst));
  at.count.End(&kThread, false);
  EXPECT_EQ(at.steps(), 1u);
  EXPECT_TRUE(at.count.BeginStep(&kThread, &kFirst));
}

TEST(StepCountTest, AStepInAScalersIsOne) {
  Counted at(StepOn::kAuto);
  ASSERT_TRUE(at.count.BeginStep(&kThread, &kFirst));
  at.Step();
  at.count.End(&kThread, true);
  EXPECT_EQ(at.steps(), 2u);
}

TEST(StepCountTest, ModulesBeginUntilAnOptimizerSteps) {
  for (const StepOn on : {StepOn::kOptimizer, StepOn::kApi}) {
    Counted at(on);
    ASSERT_TRUE(at.count.BeginModule(&kThread));
    EXPECT_FALSE(at.count.BeginModule(&kThread));
    at.count.End(&kThread, true);
    EXPECT_EQ(at.steps(), 1u);
    on == StepOn::kApi ? at.count.SeeStep() : at.Step();
    EXPECT_FALSE(at.count.BeginModule(&kThread));
  }
}

TEST(StepCountTest, OneThingAlone) {
  Counted forward(StepOn::kForward);
  forward.Forward();
  EXPECT_EQ(forward.steps(), 2u);
  EXPECT_EQ(forward.forwards(), 0u);
  Counted api(StepOn::kApi);
  api.Forward();
  EXPECT_EQ(api.steps(), 1u);
  api.Step(nullptr);
  EXPECT_EQ(api.steps(), 2u);
}

TEST(StepCountTest, AForkedProcessBeginsAnew) {
  Counted at(StepOn::kAuto);
  at.Step();
  ASSERT_TRUE(at.count.BeginStep(&kThread, &kFirst));
  at.count.Forget();
  at.count.End(&kThread, true);  // of the parent's call
  at.Step();
  EXPECT_EQ(at.steps(), 2u);
}

}  // namespace
}  // namespace torchtrace::torch_dialect
