#include "tracer/launch/output_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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
    std::string pattern = fs::canonical(::testing::TempDir()).string() + "/output_folder_XXXXXX";
    folder_ = fs::path(mkdtemp(pattern.data())) / "out";
  }
  void TearDown() override { fs::remove_all(folder_.parent_path()); }

  void Touch(const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "x";
  }
  bool Exists(const std::string& name) const { return fs::exists(folder_ / name); }
  auto Claim(bool force = false) const { return OutputFolder::Claim(folder_.string(), {.force = force}); }
  std::string Refusal(bool force) const {
    const auto claimed = Claim(force);
    EXPECT_TRUE(absl::IsAlreadyExists(claimed.status())) << claimed.status();
    return std::string(claimed.status().message());
  }

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

TEST_F(OutputFolderTest, NamesFromTheEnvironmentLeadNowhereElse) {
  for (const char* variable : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    for (const char* value : {"../..", "..", ".", "/", "a/b", "a\nb", "\033[31m", "a\177", "\302\2333"}) {
      setenv(variable, value, 1);
      EXPECT_TRUE(absl::IsInvalidArgument(ExpandOutputName("out-%r").status())) << variable << "=" << value;
      EXPECT_TRUE(ExpandOutputName("out-%p").ok());
    }
    setenv(variable, "node.1-2", 1);
    EXPECT_EQ(*ExpandOutputName("%r"), "node.1-2");
    unsetenv(variable);
  }
}

TEST_F(OutputFolderTest, CreatesWhatIsMissing) {
  const std::string deep = (folder_ / "a/b/").string();
  const auto claimed = OutputFolder::Claim(deep);
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_TRUE(fs::is_directory(deep + "/log"));
  std::ofstream(deep + "/log/main-1.ttlog") << "x";
  (*claimed)->Drop();
  EXPECT_FALSE(fs::exists(deep));
}

TEST_F(OutputFolderTest, IsPrivateUnlessTold) {
  const mode_t before = umask(022);
  for (const bool readable : {false, true}) {
    const auto claimed = OutputFolder::Claim(folder_.string(), {.readable = readable});
    ASSERT_TRUE(claimed.ok());
    for (const fs::path& path : {folder_, folder_ / "log"}) {
      struct stat is;
      ASSERT_EQ(stat(path.c_str(), &is), 0);
      EXPECT_EQ(is.st_mode & 07777, readable ? 0755u : 0700u);
    }
    (*claimed)->Drop();
  }
  umask(before);
}

TEST_F(OutputFolderTest, DropsNothingElse) {
  Touch("notes.txt");
  const auto claimed = Claim(true);
  ASSERT_TRUE(claimed.ok());
  (*claimed)->Drop();
  EXPECT_TRUE(Exists("notes.txt"));
  EXPECT_FALSE(Exists("log"));
}

TEST_F(OutputFolderTest, DropLeavesTheEarlierTrace) {
  for (const char* name : {"log/main-1.ttlog", "run.json"}) Touch(name);
  const auto claimed = Claim(true);
  ASSERT_TRUE(claimed.ok());
  Touch("log/main-2.ttlog");
  (*claimed)->Drop();
  EXPECT_TRUE(Exists("log/main-1.ttlog"));
  EXPECT_TRUE(Exists("run.json"));
  EXPECT_FALSE(Exists("log/main-2.ttlog"));
  EXPECT_FALSE(Exists("log/.lock"));
}

TEST_F(OutputFolderTest, TakesAnEmptyFolder) {
  fs::create_directories(folder_);
  EXPECT_TRUE(Claim().ok());
}

TEST_F(OutputFolderTest, RefusesWhatIsNotEmpty) {
  Touch("notes.txt");
  EXPECT_THAT(Refusal(false), HasSubstr("--force"));
  EXPECT_FALSE(Exists("log"));
}

TEST_F(OutputFolderTest, RefusesAFile) {
  std::ofstream(folder_) << "x";
  EXPECT_THAT(Refusal(true), HasSubstr("is a file"));
  EXPECT_TRUE(fs::is_regular_file(folder_));
}

TEST_F(OutputFolderTest, RefusesWhatALiveProcessWrites) {
  Touch("log/main-1.ttlog");
  auto first = Claim(true);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Refusal(true), absl::StrCat("the output folder ", folder_.string(), " is in use: process ", getpid(),
                                        ", or one that it forked, still writes its trace there; wait until it ends, or "
                                        "give another with -o"));
  EXPECT_THAT(Refusal(false), HasSubstr("is not empty"));
  EXPECT_TRUE(Exists("log/main-1.ttlog"));
  first->reset();
  EXPECT_TRUE(Claim(true).ok());
}

TEST_F(OutputFolderTest, OneOfManyStartersGetsIt) {
  constexpr int kStarters = 4;
  for (int round = 0; round < 30; ++round) {
    std::atomic<int> ready{0}, won{0}, done{0};
    std::vector<std::thread> starters;
    for (int i = 0; i < kStarters; ++i) {
      starters.emplace_back([&] {
        ++ready;
        while (ready < kStarters) std::this_thread::yield();
        const auto claimed = Claim();
        if (claimed.ok()) ++won;
        ++done;
        while (done < kStarters) std::this_thread::yield();
      });
    }
    for (std::thread& starter : starters) starter.join();
    ASSERT_EQ(won, 1) << "round " << round;
    fs::remove_all(folder_);
  }
}

TEST_F(OutputFolderTest, RefusesLinksInIt) {
  const fs::path other = folder_.parent_path() / "other";
  fs::create_directories(other);
  std::ofstream(other / "main-1.ttlog") << "x";
  std::ofstream(other / "run.json") << "x";
  fs::create_directories(folder_);
  fs::create_symlink(other, folder_ / "log");
  EXPECT_THAT(Refusal(true), HasSubstr("/log is a link"));
  fs::remove(folder_ / "log");
  for (const char* name : {"run.json", "log/main-1.ttlog"}) {
    fs::create_directories(folder_ / "log");
    fs::create_symlink(other / fs::path(name).filename(), folder_ / name);
    EXPECT_THAT(Refusal(true), HasSubstr(absl::StrCat(name, " is a link")));
    EXPECT_TRUE(fs::is_symlink(folder_ / name));
    fs::remove(folder_ / name);
  }
  EXPECT_TRUE(fs::exists(other / "main-1.ttlog"));
  EXPECT_TRUE(fs::exists(other / "run.json"));
}

TEST_F(OutputFolderTest, TheFolderItselfMayBeALink) {
  const fs::path real = folder_.parent_path() / "real";
  fs::create_directories(real);
  fs::create_directory_symlink(real, folder_);
  EXPECT_TRUE(Claim().ok());
  EXPECT_TRUE(fs::is_directory(real / "log"));
}

TEST_F(OutputFolderTest, ForceRemovesOnlyWhatARunWrote) {
  for (const char* name : {"log/main-1.ttlog", "log/fork-2.ttlog", "api_trace.yaml", "api_statistics.txt", "run.json",
                           "api_trace_level_2.txt", "notes.txt", "log/notes.txt", "api_mine.txt", "sub/run.json"}) {
    Touch(name);
  }
  const auto claimed = Claim(true);
  ASSERT_TRUE(claimed.ok());
  EXPECT_TRUE(Exists("run.json"));
  Touch("log/main-3.ttlog");
  ASSERT_TRUE((*claimed)->RemoveEarlierTrace().ok());
  for (const char* name : {"log/main-1.ttlog", "log/fork-2.ttlog", "api_trace.yaml", "api_statistics.txt", "run.json",
                           "api_trace_level_2.txt"}) {
    EXPECT_FALSE(Exists(name)) << name;
  }
  for (const char* name : {"log/main-3.ttlog", "notes.txt", "log/notes.txt", "api_mine.txt", "sub/run.json"}) {
    EXPECT_TRUE(Exists(name)) << name;
  }
}

}  // namespace
}  // namespace torchtrace
