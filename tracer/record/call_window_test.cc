#include "tracer/record/call_window.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

// How many of `calls` calls are in, each the first of its configuration.
int Taken(CallWindow* window, int calls, uint64_t thread = 0) {
  int taken = 0;
  for (int i = 0; i < calls; ++i) taken += window->Admits(0, thread, static_cast<uint64_t>(i)) ? 1 : 0;
  return taken;
}

TEST(CallWindow, OptionsThatLeaveOutNothing) {
  EXPECT_FALSE(CallWindow::Limits({}));
  RecordingOptions options;
  options.sample = 0.5;
  EXPECT_TRUE(CallWindow::Limits(options));
}

TEST(CallWindow, SkipsThenTakesAtMost) {
  RecordingOptions options;
  options.skip = 3;
  options.max_calls = 2;
  CallWindow window(options);
  EXPECT_FALSE(window.Admits(0, 0, 0));
  EXPECT_FALSE(window.over());
  EXPECT_EQ(Taken(&window, 2), 0);
  EXPECT_EQ(Taken(&window, 2), 2);
  EXPECT_FALSE(window.over());
  EXPECT_FALSE(window.Admits(0, 0, 5));
  EXPECT_TRUE(window.over());
  window.Begin();
  EXPECT_EQ(Taken(&window, 10), 2);
}

TEST(CallWindow, TheFirstSightingsAreNotTakenFromTheMost) {
  RecordingOptions options;
  options.first = 2;
  options.max_calls = 2;
  CallWindow window(options);
  EXPECT_FALSE(window.Admits(2, 0, 0));
  EXPECT_FALSE(window.over());
  EXPECT_TRUE(window.Admits(1, 0, 1));
  EXPECT_FALSE(window.Admits(7, 0, 2));
  EXPECT_FALSE(window.over());
  EXPECT_TRUE(window.Admits(0, 0, 3));
  EXPECT_FALSE(window.Admits(0, 0, 4));
  EXPECT_TRUE(window.over());
}

TEST(CallWindow, TakesTheSamePartEachTimeAndOthersOnOtherThreads) {
  RecordingOptions options;
  options.sample = 0.1;
  CallWindow window(options), again(options);
  const int taken = Taken(&window, 100'000);
  EXPECT_NEAR(taken, 10'000, 500);
  EXPECT_EQ(Taken(&again, 100'000), taken);
  EXPECT_NE(Taken(&window, 100'000, 1), taken);
}

TEST(CallWindow, LastsFromTheFirstCallOn) {
  RecordingOptions options;
  options.duration_ns = 3'600'000'000'000;
  CallWindow window(options);
  EXPECT_EQ(Taken(&window, 10), 10);
  options.duration_ns = 1;
  CallWindow shortest(options);
  EXPECT_TRUE(shortest.Admits(0, 0, 0));
  while (shortest.Admits(0, 0, 1)) {
  }
  EXPECT_TRUE(shortest.over());
}

TEST(CallWindow, TakesExactlyTheMostFromManyThreads) {
  RecordingOptions options;
  options.skip = 1000;
  options.max_calls = 5000;
  CallWindow window(options);
  std::vector<int> taken(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < taken.size(); ++i) threads.emplace_back([&, i] { taken[i] = Taken(&window, 10'000, i); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken[0] + taken[1] + taken[2] + taken[3], 5000);
}

}  // namespace
}  // namespace torchtrace
