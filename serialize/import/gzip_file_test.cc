#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/import/input_file.h"
#include "serialize/log/log_reader.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Pack(std::string_view text) {
  z_stream z = {};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

std::string Write(std::string_view bytes) {
  const std::string path = absl::StrCat(testing::TempDir(), "/file.gz");
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 100'000; ++i) absl::StrAppend(&text, i * 7919 % 10'007, "\n");
  return text;
}

std::string ReadAll(GzipFile* file, size_t piece) {
  std::string text, part(piece, '\0');
  while (const size_t got = file->ReadAt(text.size(), part.data(), piece)) text.append(part, 0, got);
  return text;
}

TEST(GzipFile, ReadsByPosition) {
  const std::string text = Text();
  const auto log = LogFile::Open(Write(Pack(text))).value();
  ASSERT_TRUE(GzipFile::IsGzip(*log));
  GzipFile file(log.get());
  for (const size_t offset : {size_t{0}, size_t{300'000}, size_t{17}, text.size() - 5, text.size() + 9}) {
    std::string part(1000, '\0');
    part.resize(file.ReadAt(offset, part.data(), part.size()));
    EXPECT_EQ(part, offset < text.size() ? text.substr(offset, 1000) : "") << offset;
  }
  for (const size_t piece : {size_t{7777}, size_t{1} << 20}) EXPECT_EQ(ReadAll(&file, piece), text);
  EXPECT_TRUE(file.status().ok());
}

TEST(GzipFile, SeveralMembersAndPadding) {
  const auto log =
      LogFile::Open(Write(absl::StrCat(Pack("one\n"), Pack(""), Pack("two\n"), std::string(100, '\0')))).value();
  GzipFile file(log.get());
  EXPECT_EQ(ReadAll(&file, 3), "one\ntwo\n");
  EXPECT_TRUE(file.status().ok());
}

TEST(GzipFile, CutOrDamaged) {
  const std::string text = Text();
  const std::string packed = Pack(text);
  {
    const auto log = LogFile::Open(Write(packed.substr(0, packed.size() / 2))).value();
    GzipFile file(log.get());
    const std::string read = ReadAll(&file, 1000);
    EXPECT_EQ(read, text.substr(0, read.size()));
    EXPECT_FALSE(read.empty());
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("file.gz is compressed by gzip and cut, at byte "));
  }
  std::string damaged = packed;
  std::fill(damaged.begin() + 5000, damaged.begin() + 5200, '\xff');
  const auto log = LogFile::Open(Write(damaged)).value();
  GzipFile file(log.get());
  ReadAll(&file, 1000);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("damaged, at byte "));
}

// Zeros compress a thousandfold: they are returned in pieces, and never held all at once.
TEST(InputFile, LinesOfAGzipFile) {
  const auto read = [](const std::string& path, std::vector<std::string>* lines) {
    const std::unique_ptr<InputFile> file = InputFile::Open(path).value();
    LineReader reader(file.get());
    std::string_view line;
    absl::StatusOr<bool> more = reader.Next(&line);
    for (; more.ok() && *more; more = reader.Next(&line)) lines->emplace_back(line.substr(0, 5));
    return more.status();
  };
  std::vector<std::string> lines;
  EXPECT_TRUE(read(Write(Pack("one\r\ntwo\nthree")), &lines).ok());
  EXPECT_THAT(lines, ElementsAre("one", "two", "three"));
  const absl::Status bomb = read(Write(Pack(std::string(80 << 20, '\0'))), &lines);
  EXPECT_THAT(std::string(bomb.message()), HasSubstr("file.gz line 1 is longer than 64 MiB"));
  const std::string packed = Pack(Text());
  EXPECT_THAT(std::string(read(Write(packed.substr(0, 9000)), &lines).message()), HasSubstr("cut, at byte "));
}

}  // namespace
}  // namespace torchtrace
