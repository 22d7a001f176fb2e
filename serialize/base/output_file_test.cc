#include "serialize/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/base/new_file.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

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

}  // namespace
}  // namespace torchtrace
