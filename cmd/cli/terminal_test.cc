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

// Prints nothing if standard error is no terminal.
TEST(ProgressTest, NoTerminal) {
  testing::internal::CaptureStderr();
  {
    Progress progress;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1100);
    while (std::chrono::steady_clock::now() < end) progress.Show("reading", Progress::kCalls, 1, 2);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(FirstScreenTest, SaysHowManyMoreLinesThereAre) {
  const auto shown = [](size_t lines, const std::string& text) {
    FirstScreen screen(/*width=*/30, lines, "--all");
    std::string shown;
    for (const char c : text) shown += screen.Take(std::string(1, c));
    return shown + screen.End();
  };
  EXPECT_EQ(shown(3, ""), "");
  EXPECT_EQ(shown(3, "a\nb\nc\n"), "a\nb\nc\n");
  EXPECT_EQ(shown(3, "a\nb\nc\nd\ne"), "a\nb\n... and 3 more lines (--all shows them)\n");
  EXPECT_EQ(shown(0, "a\nb"), "a\nb");
  EXPECT_EQ(shown(2, std::string(40, 'x') + "\n"), std::string(27, 'x') + "...\n");
}

}  // namespace

}  // namespace torchtrace
