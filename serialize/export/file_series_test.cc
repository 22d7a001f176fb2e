#include "serialize/export/file_series.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

std::string TestFolder() {
  std::string folder = testing::TempDir() + "file_series_XXXXXX";
  EXPECT_NE(mkdtemp(folder.data()), nullptr);
  return folder;
}

std::string Content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

size_t FilesIn(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(ParseFileSize, TakesNumbersWithAUnit) {
  EXPECT_EQ(*ParseFileSize("1KB"), 1024u);
  EXPECT_EQ(*ParseFileSize("128MB"), 128u << 20);
  EXPECT_EQ(*ParseFileSize("10gb"), uint64_t{10} << 30);
  EXPECT_EQ(*ParseFileSize("17179869183GB"), uint64_t{17179869183} << 30);
  for (const char* const bad :
       {"", "MB", "128", "0KB", "-1KB", "+1KB", "1.5MB", "17179869184GB", "99999999999999999999KB", "MB1", "1MBx"}) {
    const auto size = ParseFileSize(bad);
    ASSERT_FALSE(size.ok()) << bad;
    EXPECT_NE(size.status().message().find("not a size of a file"), absl::string_view::npos) << bad;
  }
}

constexpr int64_t kNow = 1'700'000'000'123'456'789;  // 2023-11-14 22:13:20 UTC

std::string NameOf(const char* spec, const FileFacts& facts = {}, uint64_t index = 1) {
  setenv("TZ", "UTC", 1);
  const auto names = FileNames::Parse(spec, kNow);
  return names.ok() ? names->Name(facts, index) : std::string(names.status().message());
}

TEST(FileNames, AreSpelledByTheirPattern) {
  EXPECT_EQ(NameOf("timestamp"), "timing_1700000000123456789");
  EXPECT_EQ(NameOf("timestamp", {}, 2), "timing_1700000000123456789-2");
  EXPECT_EQ(NameOf("datetime"), "timing_2023-11-14_22-13-20");
  EXPECT_EQ(NameOf("serial"), "timing_1");
  EXPECT_EQ(NameOf("serial", {}, 12), "timing_12");
  EXPECT_EQ(NameOf("run"), "run");
  EXPECT_EQ(NameOf("%Y%m%d-{rank}-{pid}", {.pid = 7, .rank = 3}, 2), "20231114-3-7-2");
  EXPECT_EQ(NameOf("{rank}"), "none");
  EXPECT_EQ(NameOf("{{{index}}}%%", {}, 4), "{4}%");
}

TEST(FileNames, SayWhatIsWrong) {
  EXPECT_EQ(NameOf(""),
            "the files' name '' is empty; there are timestamp, datetime, serial, and patterns of %Y %m %d %H %M %S %j "
            "%y, {timestamp}, {index}, {pid} and {rank}");
  EXPECT_EQ(NameOf("%p").substr(0, 38), "the files' name '%p' has an unknown '%");
  EXPECT_NE(NameOf("a%").find("has an unknown '%'"), std::string::npos);
  EXPECT_NE(NameOf("{host}").find("has an unknown '{host}'"), std::string::npos);
  EXPECT_NE(NameOf("{pid").find("has an unknown '{pid'"), std::string::npos);
  EXPECT_NE(NameOf("a}").find("has an unknown '}'"), std::string::npos);
  EXPECT_NE(NameOf("a/b").find("has a slash in it"), std::string::npos);
}

FileNames Names(const char* spec) { return *FileNames::Parse(spec, kNow); }

TEST(FileSeries, GivesAllFilesTheirNamesAtOnce) {
  const std::string folder = TestFolder();
  {
    FileSeries files(folder + "/a/b", Names("x{rank}"), {.suffix = ".json"});
    for (const int rank : {0, 0, 1}) {
      ASSERT_TRUE(files.Begin({.rank = rank}).ok());
      files.Append("of rank ");
      files.Append(std::to_string(rank));
    }
    EXPECT_FALSE(fs::exists(folder + "/a/b/x0.json"));
    ASSERT_TRUE(files.Commit().ok());
    EXPECT_EQ(files.paths(),
              (std::vector<std::string>{folder + "/a/b/x0.json", folder + "/a/b/x0-2.json", folder + "/a/b/x1.json"}));
  }
  EXPECT_EQ(Content(folder + "/a/b/x0-2.json"), "of rank 0");
  EXPECT_EQ(Content(folder + "/a/b/x1.json"), "of rank 1");
  EXPECT_EQ(FilesIn(folder + "/a/b"), 3u);
}

TEST(FileSeries, LeavesNothingBehindThatWasNotCommitted) {
  const std::string folder = TestFolder();
  {
    FileSeries files(folder + "/a/b", Names("x"), {});
    ASSERT_TRUE(files.Begin({}).ok());
    ASSERT_TRUE(files.Begin({}).ok());
    files.Append("text");
  }
  EXPECT_EQ(FilesIn(folder), 0u);
}

TEST(FileSeries, ReplacesOnlyWhereItMay) {
  const std::string folder = TestFolder();
  std::ofstream(folder + "/x-2") << "earlier";
  {
    FileSeries files(folder, Names("x"), {});
    ASSERT_TRUE(files.Begin({}).ok());
    const absl::Status second = files.Begin({});
    EXPECT_TRUE(absl::IsAlreadyExists(second));
    EXPECT_EQ(second.message(), folder + "/x-2 exists; --force replaces it");
  }
  EXPECT_EQ(FilesIn(folder), 1u);
  FileSeries files(folder, Names("x"), {.force = true});
  ASSERT_TRUE(files.Begin({}).ok());
  ASSERT_TRUE(files.Begin({}).ok());
  ASSERT_TRUE(files.Commit().ok());
  EXPECT_EQ(Content(folder + "/x-2"), "");
}

TEST(FileSeries, RefusesWhatIsNoFolderAndNamesThatMeetAgain) {
  const std::string folder = TestFolder();
  std::ofstream(folder + "/file") << "text";
  FileSeries in_file(folder + "/file", Names("x"), {});
  EXPECT_EQ(in_file.Begin({}).message(), folder + "/file is not a folder");
  FileSeries files(folder, Names("{pid}{index}"), {});
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(files.Begin({.pid = 1}).ok());
  EXPECT_EQ(files.Begin({.pid = 11}).message(),
            "two files would have the name " + folder + "/111; give another pattern");
}

}  // namespace
}  // namespace torchtrace
