#include "serialize/trace/running.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/base/files.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

class RunningTest : public ::testing::Test {
 protected:
  RunningTest() {
    process_.path = folder_ + "/main-1.ttlog";
    WriteFile(process_.path, std::string(4096, ' '));
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    process_.known.host = host;
    process_.known.pid = getpid();
  }
  ~RunningTest() override { Unmap(); }

  void Map() {
    const int file = open(process_.path.c_str(), O_RDONLY);
    mapping_ = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  void Unmap() {
    if (mapping_ != nullptr) munmap(mapping_, 4096);
    mapping_ = nullptr;
  }

  // As the kernel names it.
  const std::string folder_ = std::filesystem::canonical(TestFolder()).string();
  ProcessInfo process_;
  ProcessTable table_;
  void* mapping_ = nullptr;
};

TEST_F(RunningTest, AProcessRunsWhileItMapsItsLog) {
  EXPECT_EQ(IsRunning(process_, &table_), Running::kNo);
  Map();
  EXPECT_EQ(IsRunning(process_, &table_), Running::kYes);
  // Nobody writes a log that was closed, but a program may go on.
  process_.closed = true;
  EXPECT_EQ(IsRunning(process_, &table_), Running::kNo);
  process_.known.program_goes_on = true;
  EXPECT_EQ(IsRunning(process_, &table_), Running::kUnknown);
}

TEST_F(RunningTest, NobodyKnowsOtherMachines) {
  process_.known.host += "-other";
  EXPECT_EQ(IsRunning(process_, &table_), Running::kUnknown);
  // One that maps the log is here, whatever it calls the machine.
  Map();
  EXPECT_EQ(IsRunning(process_, &table_), Running::kYes);
}

TEST_F(RunningTest, AWatchLooksAtMappingsNowAndThen) {
  ProcessWatch watch;
  Map();
  EXPECT_EQ(watch.Ask(process_, false, 0, &table_), Running::kYes);
  Unmap();
  EXPECT_EQ(watch.Ask(process_, false, kSecond, &table_), Running::kYes);
  EXPECT_EQ(watch.Ask(process_, false, 100 * kSecond, &table_), Running::kNo);
  // What grows is written by somebody.
  process_.known.host += "-other";
  ProcessWatch other;
  EXPECT_EQ(other.Ask(process_, false, 0, &table_), Running::kUnknown);
  EXPECT_EQ(other.Ask(process_, true, kSecond, &table_), Running::kYes);
  EXPECT_EQ(other.Ask(process_, false, 2 * kSecond, &table_), Running::kUnknown);
}

pid_t Fork(int* to_child) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    while (read(ends[0], &byte, 1) != 0 && byte != 'x') {
    }
    if (byte == 'x') execlp("sleep", "sleep", "1000", nullptr);
    _exit(0);
  }
  close(ends[0]);
  *to_child = ends[1];
  return child;
}

TEST_F(RunningTest, AWatchSeesADeathAtOnce) {
  Map();
  int to_child;
  const pid_t child = Fork(&to_child);
  process_.known.pid = child;
  ProcessWatch watch;
  EXPECT_EQ(watch.Ask(process_, false, 0, &table_), Running::kYes);
  kill(child, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  // Even before its parent has noticed.
  EXPECT_EQ(watch.Ask(process_, true, 1, &table_), Running::kNo);
  EXPECT_EQ(watch.Ask(process_, false, 2, &table_), Running::kNo);
  waitpid(child, nullptr, 0);
  close(to_child);
}

TEST_F(RunningTest, TheTraceOfAProcess) {
  EXPECT_THAT(TraceFoldersOf(getpid()).status().message(), HasSubstr("writes no trace"));
  EXPECT_THAT(TraceFoldersOf(1 << 29).status().message(), HasSubstr("there is no process "));
  ASSERT_EQ(mkdir((folder_ + "/log").c_str(), 0700), 0);
  const auto lock = FolderLock::Share(folder_ + "/log").value();
  EXPECT_THAT(TraceFoldersOf(getpid()).value(), ElementsAre(folder_));
  int to_child;
  const pid_t child = Fork(&to_child);
  const absl::Cleanup end = [&] {
    close(to_child);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  };
  EXPECT_THAT(TraceFoldersOf(child).value(), ElementsAre(folder_));
  // A program that can't be followed belongs to whoever started it.
  ASSERT_EQ(write(to_child, "x", 1), 1);
  const std::string exe = absl::StrCat("/proc/", child, "/exe");
  char own[256] = "", its[256] = "";
  ASSERT_GT(readlink("/proc/self/exe", own, sizeof own - 1), 0);
  do {
    usleep(1000);
  } while (readlink(exe.c_str(), its, sizeof its - 1) > 0 && std::string(its) == own);
  EXPECT_THAT(TraceFoldersOf(child).value(), ElementsAre(folder_));
}

}  // namespace
}  // namespace torchtrace
