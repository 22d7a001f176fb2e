#include "serialize/base/unfinished.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

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

}  // namespace
}  // namespace torchtrace
