#include "serialize/import/json_stream.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

class Recorder : public JsonStreamVisitor {
 public:
  absl::Status Element(const nlohmann::json& element, uint64_t offset) override {
    absl::StrAppend(&lines, offset, " ", element.dump(), "\n");
    return element == "stop" ? absl::CancelledError("stopped") : absl::OkStatus();
  }
  absl::Status Member(const std::string& key, const nlohmann::json& value) override {
    absl::StrAppend(&lines, key, " ", value.dump(), "\n");
    return absl::OkStatus();
  }
  std::string lines;
};

// What was visited, then how reading ended.
std::string Read(std::string_view json, bool bare_array = false) {
  Recorder recorder;
  const absl::StatusOr<JsonStreamEnd> end =
      ReadJsonStream(MemoryFile(json), {.array = "items", .bare_array = bare_array, .members = {"a", "b"}}, &recorder);
  if (!end.ok()) return absl::StrCat(recorder.lines, std::string(end.status().message()));
  return absl::StrCat(recorder.lines, end->cut ? "cut " : "", end->found_array ? "" : "no array ", end->elements,
                      " of ", end->bytes);
}

TEST(JsonStream, ElementsOneByOneAndMembers) {
  EXPECT_EQ(
      Read(
          R"({"a": {"x": [1, {"y": null}]}, "skip": [[{"a": 1}], {}], "items": [{"k": 1, "k": 2}, [true, -1], "s", 2.5], "b": "z"})"),
      "a {\"x\":[1,{\"y\":null}]}\n"
      "67 {\"k\":2}\n"
      "85 [true,-1]\n"
      "99 \"s\"\n"
      "105 2.5\n"
      "b \"z\"\n"
      "4 of 117");
  EXPECT_EQ(Read("{}"), "no array 0 of 2");
  EXPECT_EQ(Read(" [1, {}] ", true), "3 1\n5 {}\n2 of 9");
  EXPECT_EQ(Read("\xef\xbb\xbf[]", true), "0 of 5");
}

TEST(JsonStream, FilesLargerThanTheBuffer) {
  std::string json = "{\"items\": [";
  std::string expected;
  for (int i = 0; i < 5000; ++i) {
    if (i > 0) json += ",\n";
    const std::string item = absl::StrCat("{\"i\":", i, ",\"text\":\"", std::string(40, 'x'), "\"}");
    absl::StrAppend(&expected, json.size(), " ", item, "\n");
    json += item;
  }
  json += "]}";
  ASSERT_GT(json.size(), 4u << 16);
  EXPECT_EQ(Read(json), absl::StrCat(expected, "5000 of ", json.size()));
}

// Endless files, which a few compressed bytes can contain, must not take endless memory.
TEST(JsonStream, EndlessValues) {
  for (const std::string_view begin : {"[1, ", "[\"", "[[1, ", "{\"items\": [1], \"other\": \""}) {
    const std::string_view piece = begin == "[[1, " ? "2, " : "   ";
    const auto read = [&](uint64_t offset, void* to, size_t bytes) {
      auto* const text = static_cast<char*>(to);
      for (size_t i = 0; i < bytes; ++i) {
        const uint64_t at = offset + i;
        text[i] = at < begin.size() ? begin[at] : piece[(at - begin.size()) % piece.size()];
      }
      return bytes;
    };
    Recorder recorder;
    const absl::StatusOr<JsonStreamEnd> end = ReadJsonStream(
        {.name = "file.json", .read = read}, {.array = "items", .bare_array = true, .members = {}}, &recorder);
    EXPECT_THAT(std::string(end.status().message()),
                testing::MatchesRegex("file.json: offset [0-9]+: a value of more than 64 MiB"));
  }
}

TEST(JsonStream, Cut) {
  EXPECT_EQ(Read(R"({"items": [{"k": 1}, {"k": 12)"), "11 {\"k\":1}\ncut 1 of 29");
  EXPECT_EQ(Read(R"({"items": [{"k": 1}, {"k": "\u12)"), "11 {\"k\":1}\ncut 1 of 32");
  EXPECT_EQ(Read(R"({"items": [)"), "cut 0 of 11");
  EXPECT_EQ(Read(R"({"items)"), "cut no array 0 of 7");
  EXPECT_EQ(Read(""), "cut no array 0 of 0");
}

TEST(JsonStream, Errors) {
  EXPECT_EQ(Read("[]"), "file.json: offset 0: expected a JSON object with \"items\"");
  EXPECT_EQ(Read("7 "), "file.json: offset 1: expected a JSON object with \"items\"");
  EXPECT_EQ(Read(R"({"items": {}})"), "file.json: offset 10: \"items\" must be an array");
  EXPECT_EQ(Read(R"({"items": [1, ]})"),
            "12 1\nfile.json: offset 14: not JSON: syntax error while parsing value - unexpected ']'; expected '[', "
            "'{', or a literal");
  const auto expect_start = [](std::string_view json, std::string_view start) {
    EXPECT_EQ(Read(json).substr(0, start.size()), start);
  };
  expect_start("{\"items\": [\"\xff\"]}",
               "file.json: offset 12: not JSON: syntax error while parsing value - invalid string");
  expect_start(R"({"items": []} x)",
               "file.json: offset 14: not JSON: syntax error while parsing value - invalid literal");
  expect_start(R"({"items": [1e999]})", "file.json: offset 15: not JSON: number overflow parsing '1e999'");
  // The text that was read is not part of the message.
  EXPECT_LT(Read(absl::StrCat(R"({"items": [")", std::string(1 << 20, 'a'), "\n\"]}")).size(), 200u);
  EXPECT_EQ(Read(R"({"items": ["stop", 1]})"), "16 \"stop\"\nstopped");
}

TEST(JsonStream, DepthIsBounded) {
  const std::string deepest = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_EQ(Read(absl::StrCat("[", deepest, "]"), true), absl::StrCat("1 ", deepest, "\n1 of ", deepest.size() + 2));
  EXPECT_EQ(
      Read(absl::StrCat("[[", deepest, "]]"), true),
      absl::StrCat("file.json: offset ", kMaxJsonDepth + 1, ": containers nested more than ", kMaxJsonDepth, " deep"));
  // Skipped members aren't built, so they may be nested to any depth.
  const std::string deep = std::string(1 << 20, '[') + std::string(1 << 20, ']');
  EXPECT_EQ(Read(absl::StrCat("{\"skip\": ", deep, ", \"items\": [3]}")),
            absl::StrCat(deep.size() + 22, " 3\n1 of ", deep.size() + 24));
}

}  // namespace
}  // namespace torchtrace
