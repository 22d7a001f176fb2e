#include "tracer/record/step_window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RecordingOptions Options(const std::string& steps, uint64_t max_steps = 0) {
  RecordingOptions options;
  options.steps = steps;
  options.max_steps = max_steps;
  return options;
}

// The steps from 1 to 9 that are recorded; 0: what is before them.
std::vector<int> Recorded(StepWindow* window, StepKind kind = StepKind::kStep, int paused_in = 0) {
  std::vector<int> recorded;
  if (window->admits()) recorded.push_back(0);
  for (uint64_t number = 1; number <= 9; ++number) {
    window->Move({kind, number, true, number, static_cast<int64_t>(100 * number)},
                 static_cast<int>(number) != paused_in + 1);
    if (window->admits()) recorded.push_back(static_cast<int>(number));
  }
  return recorded;
}

std::vector<int> Recorded(const std::string& steps, uint64_t max_steps = 0) {
  StepWindow window(Options(steps, max_steps));
  return Recorded(&window);
}

TEST(StepWindowTest, RecordsOnlyTheStepsOfTheList) {
  EXPECT_THAT(Recorded("3-4"), ElementsAre(3, 4));
  EXPECT_THAT(Recorded("7"), ElementsAre(7));
  EXPECT_THAT(Recorded("8-"), ElementsAre(8, 9));
  EXPECT_THAT(Recorded("1,4-5"), ElementsAre(1, 4, 5));
  EXPECT_THAT(Recorded("20"), IsEmpty());
}

TEST(StepWindowTest, RecordsNoMoreStepsThanAsked) {
  EXPECT_THAT(Recorded("", 2), ElementsAre(0, 1, 2));
  EXPECT_THAT(Recorded("3-8", 2), ElementsAre(3, 4));
  // A step that ends in a pause wasn't recorded.
  StepWindow window(Options("", 2));
  EXPECT_THAT(Recorded(&window, StepKind::kStep, 1), ElementsAre(0, 1, 2, 3));
}

TEST(StepWindowTest, StepsCountAnewOnceWhatEndsThemIsKnown) {
  StepWindow window(Options("", 2));
  EXPECT_THAT(Recorded(&window, StepKind::kForward), ElementsAre(0, 1, 2));
  window.Move({StepKind::kStep, 1, true, 1, 1000}, true);
  EXPECT_TRUE(window.admits());
  EXPECT_TRUE(window.admitted_any());
}

TEST(StepWindowTest, TagsNameSteps) {
  StepWindow window(Options("40"));
  window.Move({StepKind::kTag, 1, true, 40, 100}, true);
  EXPECT_TRUE(window.admits());
  const auto ended = window.Move({StepKind::kTag, 1, false, 1, 170}, true);
  EXPECT_FALSE(window.admits());
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->kind, StepKind::kTag);
  EXPECT_EQ(ended->number, 1u);
  EXPECT_EQ(ended->end_ns, 170);
}

TEST(StepWindowTest, ReportsEndsThatNoLaterCallTells) {
  StepWindow window(Options("2-3"));
  const auto move = [&window](uint64_t number) {
    return window.Move({StepKind::kStep, number, true, number, static_cast<int64_t>(100 * number)}, true);
  };
  EXPECT_FALSE(move(1).has_value());
  EXPECT_FALSE(move(2).has_value());
  EXPECT_FALSE(move(3).has_value());
  const auto ended = move(4);
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->number, 3u);
  EXPECT_EQ(ended->end_ns, 400);
  EXPECT_FALSE(move(5).has_value());
  window.Begin();
  EXPECT_FALSE(window.admits());
  EXPECT_FALSE(window.admitted_any());
}

}  // namespace
}  // namespace torchtrace
