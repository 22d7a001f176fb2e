#include "serialize/base/folder_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FolderLockTest : public ::testing::Test {
 protected:
  auto Take() { return FolderLock::Take(log_); }
  std::string Refusal() {
    const auto lock = Take();
    return lock.ok() ? "" : std::string(lock.status().message());
  }

  const std::string log_ = TestFolder();
};

TEST_F(FolderLockTest, HasOneHolder) {
  auto lock = Take();
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(Refusal(), absl::StrCat("is in use: process ", getpid(),
                                    ", or one that it forked, still writes its trace there; wait for its end"));
  lock->reset();
  EXPECT_TRUE(fs::is_empty(log_));
  EXPECT_EQ(Refusal(), "");
}

TEST_F(FolderLockTest, OutlivesEveryDescriptor) {
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = Take();
    if (!lock.ok()) _exit(1);
    closefrom(0);
    kill(getpid(), SIGSTOP);
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_THAT(Refusal(), HasSubstr(absl::StrCat("process ", child, ",")));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(FolderLockTest, IsHeldByForkedProcesses) {
  auto lock = Take();
  ASSERT_TRUE(lock.ok());
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  const absl::Cleanup end = [child] {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  };
  lock->reset();
  EXPECT_THAT(Refusal(), HasSubstr("process "));
  kill(child, SIGKILL);
  // Reaped by the clean-up: whoever waits sees it dead, with its mappings gone.
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(FolderLockTest, IsNotHeldByStartedPrograms) {
  auto lock = Take();
  ASSERT_TRUE(lock.ok());
  const pid_t child = fork();
  if (child == 0) {
    execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  const absl::Cleanup end = [child] {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  };
  std::error_code error;
  while (fs::read_symlink(absl::StrCat("/proc/", child, "/exe"), error) == fs::read_symlink("/proc/self/exe")) {
    usleep(1000);
  }
  lock->reset();
  EXPECT_EQ(Refusal(), "");
}

TEST_F(FolderLockTest, FollowsNoLink) {
  const std::string other = log_ + ".other";
  ASSERT_EQ(symlink(other.c_str(), (log_ + "/.lock").c_str()), 0);
  EXPECT_FALSE(Take().ok());
  EXPECT_FALSE(fs::exists(other));
  const std::string link = log_ + ".link";
  ASSERT_EQ(symlink(log_.c_str(), link.c_str()), 0);
  EXPECT_EQ(FolderLock::Take(link).status().message(), link + " is a link");
  fs::remove(link);
}

}  // namespace
}  // namespace torchtrace
