#include "cmd/reading/new_trace_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/base/files.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class NewTraceFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ =
        (fs::canonical(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name()).string();
    fs::remove_all(root_);
    fs::create_directories(root_);
    target_ = root_ + "/out";
  }
  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << text;
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  std::string Refusal(const std::string& folder, bool force) {
    const auto created = NewTraceFolder::Create(folder, {.force = force});
    EXPECT_FALSE(created.ok());
    return std::string(created.status().message());
  }

  std::string root_;
  std::string target_;
};

TEST_F(NewTraceFolderTest, AppearsAtCommit) {
  for (const bool exists : {false, true}) {
    if (exists) {
      fs::remove_all(target_);
      fs::create_directory(target_);
    }
    const auto folder = NewTraceFolder::Create(target_).value();
    Write(folder->path() + "/log/a.ttlog", "log");
    EXPECT_EQ(folder->Shown("cannot write " + folder->path() + "/x"), "cannot write " + target_ + "/x");
    EXPECT_FALSE(fs::exists(target_ + "/log"));
    ASSERT_TRUE(folder->Commit().ok());
    EXPECT_EQ(Read(target_ + "/log/a.ttlog"), "log");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(NewTraceFolderTest, LeavesNothingWithoutCommit) {
  for (const std::string& target : {target_, root_ + "/a/b/c"}) {
    {
      Write(NewTraceFolder::Create(target).value()->path() + "/log/a.ttlog", "log");
    }
    EXPECT_TRUE(fs::is_empty(root_)) << target;
  }
}

TEST_F(NewTraceFolderTest, FoldersAroundItAreMade) {
  const auto folder = NewTraceFolder::Create(root_ + "/a/b/c/").value();
  ASSERT_TRUE(folder->Commit().ok());
  EXPECT_TRUE(fs::is_directory(root_ + "/a/b/c/log"));
}

TEST_F(NewTraceFolderTest, ReplacesATraceAndKeepsTheRest) {
  Write(target_ + "/log/old.ttlog", "old");
  Write(target_ + "/log/notes", "notes");
  Write(target_ + "/run.json", "old");
  Write(target_ + "/api_configs.txt", "old");
  Write(target_ + "/mine/file", "mine");
  EXPECT_EQ(Refusal(target_, false),
            "the output folder " + target_ + " is not empty; --force overwrites the trace in it, -o gives another");
  const auto folder = NewTraceFolder::Create(target_, {.force = true}).value();
  Write(folder->path() + "/log/new.ttlog", "new");
  Write(folder->path() + "/run.json", "new");
  EXPECT_EQ(Read(target_ + "/run.json"), "old");
  ASSERT_TRUE(folder->Commit().ok());
  EXPECT_EQ(Read(target_ + "/run.json"), "new");
  EXPECT_EQ(Read(target_ + "/log/new.ttlog"), "new");
  EXPECT_EQ(Read(target_ + "/log/notes"), "notes");
  EXPECT_EQ(Read(target_ + "/mine/file"), "mine");
  EXPECT_FALSE(fs::exists(target_ + "/log/old.ttlog"));
  EXPECT_FALSE(fs::exists(target_ + "/api_configs.txt"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
}

TEST_F(NewTraceFolderTest, ThroughALink) {
  fs::create_directory(root_ + "/real");
  fs::create_symlink("real", target_);
  const auto folder = NewTraceFolder::Create(target_).value();
  Write(folder->path() + "/run.json", "new");
  ASSERT_TRUE(folder->Commit().ok());
  EXPECT_EQ(Read(root_ + "/real/run.json"), "new");
  EXPECT_TRUE(fs::is_symlink(target_));
}

TEST_F(NewTraceFolderTest, Refusals) {
  Write(root_ + "/file", "x");
  EXPECT_THAT(Refusal(root_ + "/file", true), HasSubstr("is a file"));
  EXPECT_THAT(Refusal(root_ + "/file/below", true), HasSubstr(root_ + "/file/below"));
  EXPECT_THAT(Refusal("", false), HasSubstr("empty"));
  EXPECT_THAT(Refusal(".", true), HasSubstr("holds the current folder"));
  EXPECT_THAT(Refusal("/", true), HasSubstr("holds the current folder"));
  EXPECT_THAT(Refusal("/proc", true), HasSubstr("root of a file system"));
  EXPECT_EQ(Read(root_ + "/file"), "x");
}

TEST_F(NewTraceFolderTest, RefusesWhatALiveProcessWrites) {
  Write(target_ + "/log/a.ttlog", "old");
  const auto lock = FolderLock::Take(target_ + "/log");
  ASSERT_TRUE(lock.ok());
  EXPECT_THAT(Refusal(target_, true), HasSubstr("is in use: process "));
  EXPECT_EQ(Read(target_ + "/log/a.ttlog"), "old");
}

TEST_F(NewTraceFolderTest, WhatAppearedMeanwhileIsNotReplaced) {
  auto folder = NewTraceFolder::Create(target_).value();
  Write(target_ + "/log/a.ttlog", "other");
  EXPECT_THAT(std::string(folder->Commit().message()), HasSubstr("is not empty"));
  folder = NewTraceFolder::Create(root_ + "/late", {.force = true}).value();
  Write(root_ + "/late/log/a.ttlog", "other");
  const auto lock = FolderLock::Take(root_ + "/late/log");
  ASSERT_TRUE(lock.ok());
  EXPECT_THAT(std::string(folder->Commit().message()), HasSubstr("is in use"));
  EXPECT_EQ(Read(root_ + "/late/log/a.ttlog"), "other");
}

TEST_F(NewTraceFolderTest, RefusesALinkForALog) {
  Write(root_ + "/other/a.ttlog", "other");
  fs::create_directory(target_);
  fs::create_symlink("../other", target_ + "/log");
  EXPECT_THAT(Refusal(target_, true), HasSubstr("/log is a link"));
  EXPECT_EQ(Read(root_ + "/other/a.ttlog"), "other");
}

TEST_F(NewTraceFolderTest, IsPrivateUnlessTold) {
  const mode_t before = umask(022);
  for (const bool readable : {true, false}) {
    fs::remove_all(target_);
    const auto folder = NewTraceFolder::Create(target_, {.readable = readable}).value();
    Write(folder->path() + "/log/a.ttlog", "log");
    ASSERT_TRUE(folder->Commit().ok());
    struct stat is;
    ASSERT_EQ(stat(target_.c_str(), &is), 0);
    EXPECT_EQ(is.st_mode & 07777, readable ? 0755u : 0700u);
    ASSERT_EQ(stat((target_ + "/log/a.ttlog").c_str(), &is), 0);
    EXPECT_EQ(is.st_mode & 07777, readable ? 0644u : 0600u);
  }
  umask(before);
}

TEST_F(NewTraceFolderTest, SignalsTakeItAway) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      signal(number, SIG_DFL);  // a shell's background jobs ignore some signals
      const auto folder = NewTraceFolder::Create(root_ + "/a/out");
      Write((*folder)->path() + "/log/a.ttlog", "log");
      kill(getpid(), number);
      for (;;) pause();
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), number);
    EXPECT_TRUE(fs::is_empty(root_));
  }
}

TEST(LiesInTest, Paths) {
  const std::string root = fs::canonical(testing::TempDir()).string() + "/lies_in";
  fs::remove_all(root);
  fs::create_directories(root + "/a/b");
  fs::create_symlink("a", root + "/link");
  EXPECT_TRUE(LiesIn(root + "/a", root + "/a/"));
  EXPECT_TRUE(LiesIn(root + "/a/b/../b/x", root + "/a"));
  EXPECT_TRUE(LiesIn(root + "/link/b", root + "/a"));
  EXPECT_FALSE(LiesIn(root + "/a", root + "/a/b"));
  EXPECT_FALSE(LiesIn(root + "/ab", root + "/a"));
}

}  // namespace

}  // namespace torchtrace
