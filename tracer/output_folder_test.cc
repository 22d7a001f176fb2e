#include "tracer/output_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class OutputFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/output_folder_XXXXXX";
    folder_ = fs::path(mkdtemp(pattern.data())) / "out";
  }
  void TearDown() override { fs::remove_all(folder_.parent_path()); }

  void Touch(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "x";
  }
  bool Exists(const std::string& name) const { return fs::exists(folder_ / name); }

  fs::path folder_;
};

TEST_F(OutputFolderTest, ExpandsPlaceholders) {
  setenv("RANK", "3", 1);
  EXPECT_EQ(*ExpandOutputName("a-%p-%r-100%%"), absl::StrCat("a-", getpid(), "-3-100%"));
  unsetenv("RANK");
  EXPECT_EQ(*ExpandOutputName("%r"), "0");
  EXPECT_FALSE(ExpandOutputName("%h")->empty());
  for (const char* bad : {"%x", "a%", ""}) EXPECT_FALSE(ExpandOutputName(bad).ok()) << bad;
}

TEST_F(OutputFolderTest, CreatesWhatIsMissing) {
  const std::string deep = (folder_ / "a/b").string();
  ASSERT_TRUE(PrepareOutputFolder(deep, false).ok());
  EXPECT_TRUE(fs::is_directory(deep + "/log"));
  std::ofstream(deep + "/log/main-1.ttlog") << "x";
  DropOutputFolder(deep);
  EXPECT_FALSE(fs::exists(deep));
}

TEST_F(OutputFolderTest, DropsNothingElse) {
  Touch("notes.txt");
  ASSERT_TRUE(PrepareOutputFolder(folder_.string(), true).ok());
  DropOutputFolder(folder_.string());
  EXPECT_TRUE(Exists("notes.txt"));
  EXPECT_FALSE(Exists("log"));
}

TEST_F(OutputFolderTest, TakesAnEmptyFolder) {
  fs::create_directories(folder_);
  EXPECT_TRUE(PrepareOutputFolder(folder_.string(), false).ok());
}

TEST_F(OutputFolderTest, RefusesWhatIsNotEmpty) {
  Touch("notes.txt");
  const absl::Status status = PrepareOutputFolder(folder_.string(), false);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--force"));
  EXPECT_FALSE(Exists("log"));
}

TEST_F(OutputFolderTest, RefusesAFile) {
  std::ofstream(folder_) << "x";
  EXPECT_FALSE(PrepareOutputFolder(folder_.string(), true).ok());
  EXPECT_TRUE(fs::is_regular_file(folder_));
}

TEST_F(OutputFolderTest, ForceRemovesOnlyWhatARunWrote) {
  for (const char* name : {"log/main-1.ttlog", "log/fork-2.ttlog", "api_trace.yaml", "api_statistics.txt", "run.json",
                           "api_trace_level_2.txt", "notes.txt", "log/notes.txt", "api_mine.txt", "sub/run.json"}) {
    Touch(name);
  }
  ASSERT_TRUE(PrepareOutputFolder(folder_.string(), true).ok());
  for (const char* name : {"log/main-1.ttlog", "log/fork-2.ttlog", "api_trace.yaml", "api_statistics.txt", "run.json",
                           "api_trace_level_2.txt"}) {
    EXPECT_FALSE(Exists(name)) << name;
  }
  for (const char* name : {"notes.txt", "log/notes.txt", "api_mine.txt", "sub/run.json"}) {
    EXPECT_TRUE(Exists(name)) << name;
  }
}

}  // namespace
}  // namespace torchtrace
