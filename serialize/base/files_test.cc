#include "serialize/base/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

TEST_F(FolderLockTest, IsShared) {
  auto first = FolderLock::Share(log_).value(), second = FolderLock::Share(log_).value();
  EXPECT_THAT(Refusal(), HasSubstr("is in use"));
  EXPECT_EQ(FolderLock::Sharing(log_), std::vector<int>{getpid()});
  EXPECT_EQ(FolderLock::TakeAlone(std::move(first)), nullptr);
  auto alone = FolderLock::TakeAlone(std::move(second));
  ASSERT_NE(alone, nullptr);
  EXPECT_TRUE(absl::IsAlreadyExists(FolderLock::Share(log_).status()));
  EXPECT_EQ(FolderLock::Sharing(log_), std::vector<int>());
  alone.reset();
  EXPECT_FALSE(fs::exists(log_ + "/.lock"));
  EXPECT_EQ(Refusal(), "");
}

TEST_F(FolderLockTest, HasOneHolder) {
  auto lock = Take();
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(Refusal(), absl::StrCat("is in use: process ", getpid(),
                                    ", or one that it forked, still writes its trace there; wait until it ends"));
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
  // WNOWAIT leaves the child for the clean-up to reap; after it, the child is dead and its mappings are gone.
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

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  const std::string folder_ = TestFolder();
};

TEST_F(OutputFileTest, TakesNoFileThatItDidNotCreate) {
  const std::string path = folder_ + "/x.txt";
  EXPECT_NE(TemporaryName(path), TemporaryName(path));
  EXPECT_THAT(TemporaryName(path), HasSubstr(folder_ + "/.x.txt."));
  EXPECT_LE(fs::path(TemporaryName(folder_ + "/" + std::string(255, 'x'))).filename().string().size(), 255u);
  WriteFile(folder_ + "/there", "mine");
  EXPECT_EQ(CreateNewFile(folder_ + "/there", 0600), -1);
  ASSERT_EQ(symlink("nowhere", (folder_ + "/link").c_str()), 0);
  EXPECT_EQ(CreateNewFile(folder_ + "/link", 0600), -1);
  EXPECT_FALSE(fs::exists(folder_ + "/nowhere"));
}

TEST_F(OutputFileTest, FollowsALinkOnlyWhereTheUserNamedIt) {
  const std::string link = folder_ + "/link";
  WriteFile(folder_ + "/real", "old");
  ASSERT_EQ(symlink("real", link.c_str()), 0);
  const absl::Status refused = WriteOutputFile(link, "new", {.follow = false});
  EXPECT_EQ(refused.message(), absl::StrCat("cannot write ", link, ": it is a link"));
  EXPECT_EQ(ReadFile(folder_ + "/real"), "old");
  ASSERT_TRUE(WriteOutputFile(link, "new").ok());
  EXPECT_EQ(ReadFile(folder_ + "/real"), "new");
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(OutputFileTest, ReplacesNoFileThatCameMeanwhile) {
  const std::string path = folder_ + "/file";
  absl::StatusOr<std::unique_ptr<OutputFile>> first = OutputFile::Create(path, {.replace = false});
  absl::StatusOr<std::unique_ptr<OutputFile>> second = OutputFile::Create(path, {.replace = false});
  (*first)->Append("first");
  (*second)->Append("second");
  ASSERT_TRUE((*first)->Commit().ok());
  EXPECT_EQ((*second)->Commit().message(), path + " exists; --force replaces it");
  second->reset();
  EXPECT_EQ(ReadFile(path), "first");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  EXPECT_TRUE(WriteOutputFile(path, "third").ok());
  EXPECT_EQ(ReadFile(path), "third");
}

TEST_F(OutputFileTest, DoesNotWaitForAPipesReader) {
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(WriteOutputFile(pipe, "x", {.follow = false}).ok());
}

TEST_F(OutputFileTest, HasTheModeItIsGiven) {
  const mode_t before = umask(022);
  ASSERT_TRUE(WriteOutputFile(folder_ + "/private", "x", {.mode = 0600}).ok());
  ASSERT_TRUE(WriteOutputFile(folder_ + "/common", "x").ok());
  umask(before);
  struct stat is;
  ASSERT_EQ(stat((folder_ + "/private").c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((folder_ + "/common").c_str(), &is), 0);
  EXPECT_EQ(is.st_mode & 07777, 0644u);
}

namespace fs = std::filesystem;

class UnfinishedTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string Make(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "text";
    return (folder_ / name).string();
  }
  bool Exists(const std::string& name) { return fs::exists(folder_ / name); }

  fs::path folder_;
};

TEST_F(UnfinishedTest, GoesUnlessItIsComplete) {
  {
    const Unfinished file(Make("file"), Unfinished::kFile);
  }
  EXPECT_FALSE(Exists("file"));
  {
    Unfinished file(Make("file"), Unfinished::kFile);
    file.Complete();
  }
  EXPECT_TRUE(Exists("file"));
  {
    const Unfinished none((folder_ / "none").string(), Unfinished::kFile);
  }
}

TEST_F(UnfinishedTest, ATreeGoesWithAllThatIsInIt) {
  Make("a/b/c");
  {
    const Unfinished folder((folder_ / "a").string(), Unfinished::kFile);
  }
  EXPECT_TRUE(Exists("a/b/c"));
  {
    const Unfinished folder((folder_ / "a").string(), Unfinished::kTree);
  }
  EXPECT_FALSE(Exists("a"));
}

TEST_F(UnfinishedTest, AllIsRemovedAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    const Unfinished outer((folder_ / "a").string(), Unfinished::kFile);
    const Unfinished inner((folder_ / "a/b").string(), Unfinished::kFile);
    const Unfinished file(Make("a/b/c"), Unfinished::kFile);
    const Unfinished tree((folder_ / "t").string(), Unfinished::kTree);
    Make("t/u/v");
    Unfinished complete(Make("complete"), Unfinished::kFile);
    complete.Complete();
    RemoveUnfinished();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(Exists("a"));
  EXPECT_FALSE(Exists("t"));
  EXPECT_TRUE(Exists("complete"));
}

TEST(FileError, SaysWhatAndWhy) {
  EXPECT_EQ(FileError("cannot read x", ENOENT), absl::NotFoundError("cannot read x: No such file or directory"));
  EXPECT_EQ(FileError("cannot read x", ENOTDIR).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FileError("cannot read x", EACCES).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(FileError("cannot read x", EPERM).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(FileError("cannot read x", EIO).code(), absl::StatusCode::kUnavailable);
}

TEST(OpenNamelessFileTest, IsInTheFolderForSuchFiles) {
  const char* const before = getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  const std::string folder = fs::weakly_canonical(testing::TempDir() + "/nameless").string();
  fs::create_directory(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  std::FILE* const file = OpenNamelessFile();
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(fs::is_empty(folder));
  EXPECT_NE(fs::read_symlink("/proc/self/fd/" + std::to_string(fileno(file))).string().find(folder), std::string::npos);
  EXPECT_TRUE((fcntl(fileno(file), F_GETFD) & FD_CLOEXEC) != 0);
  EXPECT_GE(std::fputs("text", file), 0);
  std::rewind(file);
  EXPECT_EQ(std::fgetc(file), 't');
  std::fclose(file);
  setenv("TMPDIR", (folder + "/none").c_str(), 1);
  EXPECT_EQ(OpenNamelessFile(), nullptr);
  if (before == nullptr) {
    unsetenv("TMPDIR");
  } else {
    setenv("TMPDIR", kept.c_str(), 1);
  }
}

}  // namespace

}  // namespace torchtrace
