#include "cmd/cli/terminal.h"

#include <chrono>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(ProgressTest, Line) {
  EXPECT_EQ(FormatProgress("merging", Progress::kBytes, 1'000'000'000, 4'000'000'000, 5 * kSecond),
            "merging: 25% (1000.0 of 4000.0 MB), 15 s left");
  EXPECT_EQ(FormatProgress("merging", Progress::kBytes, 6'000'000'000, 24'000'000'000, 100 * kSecond),
            "merging: 25% (6.0 of 24.0 GB), 5 min left");
  EXPECT_EQ(FormatProgress("reading", Progress::kCalls, 1, 10'000, kSecond), "reading: 0% (1 of 10000 calls)");
  EXPECT_EQ(FormatProgress("reading", Progress::kCalls, 2'500'000, 0, kSecond), "reading: 2.5 million calls");
  EXPECT_EQ(FormatProgress("replaying", Progress::kConfigs, 30, 0, kSecond), "replaying: 30 configs");
  EXPECT_EQ(FormatProgress("reading", Progress::kCalls, 30, 20, kSecond), "reading: 100% (20 of 20 calls), 0 s left");
}

// Elsewhere than on a terminal nothing is ever written.
TEST(ProgressTest, NoTerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1100);
    while (std::chrono::steady_clock::now() < end) progress.Show("reading", Progress::kCalls, 1, 2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace

}  // namespace torchtrace
