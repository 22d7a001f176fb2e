#include "serialize/report/page/report_page.h"

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "zlib.h"

namespace torchtrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

// What a page holds.
struct Page {
  std::string text;
  json head;

  std::string Block(const std::string& name) const {
    std::string packed;
    EXPECT_TRUE(absl::Base64Unescape(Between(text, "id=\"block-" + name + "\">", "<"), &packed));
    std::string bytes(size_t{1} << 20, '\0');
    z_stream stream = {};
    EXPECT_EQ(inflateInit2(&stream, -MAX_WBITS), Z_OK);
    stream.next_in = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(bytes.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    bytes.resize(stream.total_out);
    inflateEnd(&stream);
    return bytes;
  }
};

Page Written(ReportPage* page) {
  std::ostringstream out;
  EXPECT_TRUE(page->Write(&out).ok());
  Page written;
  written.text = out.str();
  written.head = json::parse(Between(written.text, "id=\"head\">", "</script>"));
  return written;
}

std::string Bytes(std::initializer_list<int> bytes) { return {bytes.begin(), bytes.end()}; }

TEST(ReportPage, TheExampleOfItsDescription) {
  PageBlock block;
  block.AddTexts("text", {"torch.abs", "torch.add"});
  block.AddNumbers("calls", {3, 300});
  ReportPage page("0.2.0");
  page.SetBlock("apis", block);
  const Page written = Written(&page);
  EXPECT_EQ(written.head["blocks"]["apis"], json::parse(R"([{"name": "text", "type": "text", "count": 2, "bytes": 11},
                            {"name": "calls", "type": "u16", "count": 2}])"));
  EXPECT_EQ(written.Block("apis"), Bytes({0, 7, 9, 2, 0, 0, 0, 0, 0, 0}) + "torch.absdd" + Bytes({3, 0x2c, 0, 1}));
}

TEST(ReportPage, NumbersHaveTheSmallestType) {
  PageBlock block;
  block.AddNumbers("a", {0, 255});
  block.AddNumbers("b", {0, 65536});
  block.AddNumbers("c", {0, 4294967296.0});
  block.AddNumbers("d", {1, NAN});
  block.AddNumbers("e", {0.5});
  block.AddDeltas("f", {5, 7, 6});
  ReportPage page("");
  page.SetBlock("x", block);
  const Page written = Written(&page);
  std::vector<std::string> types;
  for (const json& column : written.head["blocks"]["x"]) types.push_back(column["type"]);
  EXPECT_THAT(types, testing::ElementsAre("u8", "u32", "f64", "f64", "f64", "u32"));
  EXPECT_THAT(written.Block("x"), testing::EndsWith(Bytes({5, 2, 255, 0, 0, 255, 0, 0, 255, 0, 0, 255})));
}

TEST(ReportPage, SelfTimesAreThoseOfTheirTimes) {
  PageBlock block;
  block.AddNumbers("time_ns", {1000, 3000});
  block.AddNumbers("self_ns", {1000, 2999});
  ReportPage page("");
  page.SetBlock("x", block);
  const Page written = Written(&page);
  EXPECT_EQ(written.head["blocks"]["x"][1]["xor"], "time_ns");
  EXPECT_THAT(written.Block("x"), testing::EndsWith(Bytes({0, (3000 ^ 2999) & 255, 0, (3000 ^ 2999) >> 8})));
}

TEST(ReportPage, TimesOfManyRowsHaveThreeDigits) {
  const std::vector<double> times(60'000, 123'456'789.0);
  PageBlock block;
  block.AddNumbers("time_ns", times);
  ReportPage page("");
  EXPECT_LT(page.SetBlock("x", block), 3000U);
  EXPECT_EQ(Written(&page).head["blocks"]["x"][0]["type"], "f32");
}

TEST(ReportPage, NoTextEndsItsElement) {
  ReportPage page("</script><!--");
  page.head()["traces"].push_back({{"name", "</script>&\u2028\u2029\xff"}});
  const Page written = Written(&page);
  EXPECT_THAT(written.text, Not(HasSubstr("</script><!--")));
  EXPECT_THAT(written.text, Not(HasSubstr("\u2028")));
  EXPECT_EQ(written.head["traces"][0]["name"], "</script>&\u2028\u2029\ufffd");
  EXPECT_EQ(written.head["torchtrace"], "</script><!--");
}

TEST(ReportPage, TextsAreValidAndOfLimitedLength) {
  EXPECT_EQ(PageText("a\xff\xed\xa0\x80z"), "a\ufffd\ufffdz");
  EXPECT_EQ(PageText(std::string(9000, 'x')), std::string(8192, 'x') + "...");
}

TEST(ReportPage, LabelsAreShared) {
  ReportPage page("");
  EXPECT_EQ(page.Label("torch.add", 1), 0U);
  EXPECT_EQ(page.Label("torch.add", 2), 1U);
  EXPECT_EQ(page.Label("torch.add", 1), 0U);
  EXPECT_EQ(page.Label("thread", -1), 2U);
  EXPECT_THAT(Written(&page).Block("labels"), testing::EndsWith(Bytes({1, 2, 255})));
}

}  // namespace
}  // namespace torchtrace
