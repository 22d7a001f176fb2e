#include "serialize/log/call_reader.h"

#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialize/base/bytes.h"
#include "serialize/testing/log_samples.h"

namespace torchtrace {
namespace {

std::string Head(RecordKind kind, uint64_t operand) {
  std::string head;
  AppendVarint(operand << 2 | static_cast<uint64_t>(kind), &head);
  return head;
}

std::string Varint(uint64_t value) {
  std::string varint;
  AppendVarint(value, &varint);
  return varint;
}

std::string String(std::string_view text) {
  std::string string;
  AppendString(text, &string);
  return string;
}

std::string Other(uint64_t record, const std::string& body) { return Head(RecordKind::kOther, record) + String(body); }

// The records of `payload` in the test's notation, and how reading ended.
std::string Decode(const std::string& payload, uint64_t begin = 0) {
  const std::string path = TestFolder() + "/payload";
  WriteFile(path, payload);
  const auto file = LogFile::Open(path).value();
  CallReader reader(file.get(), 0, begin, payload.size());
  std::string dump;
  auto kind = reader.Next();
  for (; kind <= CallReader::kLast; kind = reader.Next()) {
    absl::StrAppend(&dump, dump.empty() ? "" : " ", reader.offset(), ":");
    switch (kind) {
      case CallReader::kEnter:
        absl::StrAppend(&dump, "enter(", reader.definition(), ")@", reader.time());
        break;
      case CallReader::kLeave:
        absl::StrAppend(&dump, "leave@", reader.time());
        break;
      case CallReader::kRaise:
        absl::StrAppend(&dump, "raise(", std::string(reader.text()), ")@", reader.time());
        break;
      case CallReader::kDefine:
        absl::StrAppend(&dump, "define(", std::string(reader.identity()), ",", std::string(reader.facets()), ")");
        break;
      case CallReader::kThread:
        absl::StrAppend(&dump, "thread(", reader.thread().number, ",", reader.thread().os_id, ",",
                        reader.thread().calls_before, ",", reader.thread().open_calls, ",",
                        std::string(reader.thread().name), ")@", reader.time());
        break;
      case CallReader::kDropped:
        absl::StrAppend(&dump, "dropped(", reader.count(), ",", std::string(reader.text()), ")");
        break;
      default:
        absl::StrAppend(&dump, "unknown");
    }
  }
  return absl::StrCat(dump, kind == CallReader::kEnd ? " end" : " broken at ",
                      kind == CallReader::kEnd ? "" : absl::StrCat(reader.offset()));
}

TEST(CallReaderTest, Records) {
  const std::string thread = Varint(3) + Varint(4711) + Varint(1000) + Varint(8) + Varint(2) + String("main");
  const std::string enter = Head(RecordKind::kEnter, 5) + Varint(7);
  const struct {
    std::string payload;
    std::string expected;
  } kCases[] = {
      {"", " end"},
      {enter, "0:enter(5)@7 end"},
      {enter + Head(RecordKind::kLeave, 300) + enter, "0:enter(5)@7 2:leave@307 4:enter(5)@314 end"},
      {Head(RecordKind::kEnter, UINT64_MAX >> 2) + Varint(UINT64_MAX),
       "0:enter(4611686018427387903)@18446744073709551615 end"},
      {Head(RecordKind::kRaise, 9) + String("KeyError"), "0:raise(KeyError)@9 end"},
      {Head(RecordKind::kRaise, 9) + String(""), "0:raise()@9 end"},
      {Other(1, String("identity") + String("facets")), "0:define(identity,facets) end"},
      {Other(1, String("") + String("")), "0:define(,) end"},
      {Other(2, thread) + enter, "0:thread(3,4711,8,2,main)@1000 14:enter(5)@1007 end"},
      {Other(3, Varint(17) + String("why")), "0:dropped(17,why) end"},
      // A later version's record, and its additions to known records.
      {Other(9, "anything") + enter, "0:unknown 10:enter(5)@7 end"},
      {Other(300, "anything") + enter, "0:unknown 11:enter(5)@7 end"},
      {Other(3, Varint(17) + String("why") + "more") + enter, "0:dropped(17,why) 11:enter(5)@7 end"},
      // Space that was never written.
      {enter + std::string(1, '\0'), "0:enter(5)@7 broken at 2"},
      {enter + std::string(100, '\0'), "0:enter(5)@7 broken at 2"},
      // Malformed.
      {std::string(20, '\xff'), " broken at 0"},
      {enter + "\x80", "0:enter(5)@7 broken at 2"},
      {enter + "\x85", "0:enter(5)@7 broken at 2"},
      {Head(RecordKind::kRaise, 9) + Varint(UINT64_MAX) + "x", " broken at 0"},
      {Head(RecordKind::kRaise, 9) + Varint(UINT32_MAX) + "x", " broken at 0"},
      {Other(2, thread.substr(0, 5)) + enter, " broken at 0"},
      {Other(1, String("identity")) + enter, " broken at 0"},
  };
  for (const auto& c : kCases) EXPECT_EQ(Decode(c.payload), c.expected);
}

TEST(CallReaderTest, PartOfAPayload) {
  const std::string enter = Head(RecordKind::kEnter, 5) + Varint(7);
  EXPECT_EQ(Decode(enter + enter + enter, 2), "2:enter(5)@7 4:enter(5)@14 end");
}

// Every prefix yields the whole records in it.
TEST(CallReaderTest, EveryCut) {
  const std::string records[] = {
      Other(2, Varint(3) + Varint(4711) + Varint(1000) + Varint(8) + Varint(2) + String("main")),
      Other(1, String(std::string(200, 'i')) + String("facets")), Head(RecordKind::kEnter, 3000) + Varint(70000),
      Head(RecordKind::kLeave, 1 << 20), Head(RecordKind::kRaise, 1 << 20) + String("KeyError")};
  std::string payload;
  for (const std::string& record : records) payload += record;
  const std::string whole = Decode(payload);
  for (size_t size = 0; size < payload.size(); ++size) {
    size_t end = 0;
    std::string expected;
    for (const std::string& record : records) {
      if (end + record.size() > size) break;
      end += record.size();
    }
    const std::string part = Decode(payload.substr(0, size));
    EXPECT_EQ(part.substr(part.rfind(" ") + 1), end == size ? "end" : absl::StrCat(end)) << size;
    EXPECT_EQ(part.substr(0, part.rfind(end == size ? " end" : " broken")),
              whole.substr(0, part.rfind(end == size ? " end" : " broken")));
  }
}

// Records of all sizes across the borders of the reader's window.
TEST(CallReaderTest, Windows) {
  std::string payload;
  std::string expected;
  for (int i = 0; i < 400; ++i) {
    const std::string identity(static_cast<size_t>(i * 997 % 5000), 'x');
    absl::StrAppend(&expected, expected.empty() ? "" : " ", payload.size(), ":define(", identity, ",", i, ")");
    payload += Other(1, String(identity) + String(absl::StrCat(i)));
  }
  for (const size_t size : {60'000, 70'000, 200'000, 3'000'000}) {
    const std::string identity(size, 'y');
    absl::StrAppend(&expected, " ", payload.size(), ":define(", identity, ",)");
    payload += Other(1, String(identity) + String(""));
  }
  uint64_t time = 0;
  for (int i = 0; i < 100'000; ++i) {
    time += static_cast<uint64_t>(i) * 31;
    absl::StrAppend(&expected, " ", payload.size(), ":enter(", i, ")@", time);
    payload += Head(RecordKind::kEnter, i) + Varint(static_cast<uint64_t>(i) * 31);
  }
  EXPECT_TRUE(Decode(payload) == expected + " end");
}

}  // namespace
}  // namespace torchtrace
