#include "serialize/numbers/later_notes_reader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

using ::testing::ElementsAre;

// Of tensor 7 in storage 8, or of one that isn't identified; with so many NaN.
std::string Note(uint64_t position, bool identified, std::optional<uint64_t> nans) {
  TensorNote note = {.position = position};
  if (identified) note.identity = {.tensor = 7, .storage = 8, .offset = 0};
  if (nans.has_value()) note.numbers = TensorNote::Numbers{.nans = *nans};
  std::string bytes;
  AppendTensorNote(note, &bytes);
  return bytes;
}
std::string Own(uint64_t position, std::optional<uint64_t> nans = std::nullopt) { return Note(position, true, nans); }
std::string Later(uint64_t position, uint64_t nans) { return Note(position, false, nans); }

// ` 1=3 2`: the tensor at position 1 has 3 NaN, that at 2 has no numbers, as those without identity (`?`) have.
std::string Text(std::string_view notes) {
  std::string text;
  for (const TensorNote& note : ReadTensorNotes(notes)) {
    absl::StrAppend(&text, " ", note.identity ? "" : "?", note.position);
    if (note.numbers) absl::StrAppend(&text, "=", note.numbers->nans);
  }
  return text;
}

std::vector<std::string> Records(LaterNotesReader* reader) {
  std::vector<std::string> records;
  const absl::Status read = reader->Read([&](const CallRecord& record) {
    static constexpr const char* kKinds[] = {"enter", "leave", "raise", "later"};
    records.push_back(
        absl::StrCat(kKinds[record.kind], " ", record.call, Text(record.notes), Text(record.result.notes)));
    if (!record.result.written.empty()) absl::StrAppend(&records.back(), " wrote", Text(record.result.written));
    if (!record.exception.empty()) absl::StrAppend(&records.back(), " ", std::string(record.exception));
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return records;
}

const Config kCall = MakeConfig(2, "aten::f", {TensorValue({4}), TensorValue({4})});

TEST(LaterNotesReader, OrderIsThatOfTheCalls) {
  FakeTrace trace;
  trace.Enter(kCall, "", Own(0) + Own(1, 3));
  trace.Enter(kCall, "", Own(0));
  trace.Later(0, LaterOf::kWritten, Later(1, 6));  // before its end
  trace.Return({TensorValue({4})}, Own(0));
  trace.Later(1, LaterOf::kResult, Later(0, 5));
  trace.Raise("ValueError");
  trace.SetWritten(Own(1));
  trace.Later(1, LaterOf::kArguments, Later(0, 2));
  trace.Later(0, LaterOf::kArguments, Later(0, 1) + Later(2, 9));
  LaterNotesReader reader(&trace);
  EXPECT_THAT(Records(&reader),
              ElementsAre("enter 0 0=1 1=3 ?2=9", "enter 1 0=2", "leave 1 0=5", "raise 0 wrote 1=6 ValueError"));
  EXPECT_EQ(reader.all_too_late(), 0u);
  EXPECT_FALSE(trace.shows_later());
}

TEST(LaterNotesReader, ATensorsNumbersMayComeOneByOne) {
  EXPECT_EQ(Text(WithLaterNotes(Own(0) + Own(1) + Own(2, 5), Later(1, 3) + Later(0, 2) + Later(2, 4))), " 0=2 1=3 2=5");
  EXPECT_EQ(Text(WithLaterNotes("", Later(1, 3) + Later(0, 2))), " ?0=2 ?1=3");
  EXPECT_EQ(Text(WithLaterNotes(Own(0), "no note")), " 0");
}

// Those of a thread that waits come when it calls again.
TEST(LaterNotesReader, OfOtherThreads) {
  FakeTrace trace;
  trace.In(0, 1);
  trace.Enter(kCall, "", Own(0));
  trace.Leave();
  trace.In(0, 0);
  for (uint64_t i = 0; i < 2 * kRecentCalls; ++i) trace.Call(kCall);
  trace.Later(0, LaterOf::kArguments, Later(0, 1));
  LaterNotesReader reader(&trace);
  EXPECT_EQ(Records(&reader)[0], "enter 0 0=1");
  EXPECT_EQ(reader.all_too_late(), 0u);
}

TEST(LaterNotesReader, WaitsForSoManyCallsOfTheThread) {
  FakeTrace trace;
  uint64_t visited = 0;
  for (uint64_t i = 0; i < kRecentCalls; ++i) trace.Call(kCall);
  trace.Later(0, LaterOf::kArguments, Later(0, 1));
  for (uint64_t i = 0; i < 10; ++i) trace.Call(kCall);
  LaterNotesReader reader(&trace);
  const absl::Status failed = absl::InternalError("of the visitor");
  const absl::Status read = reader.Read([&](const CallRecord& record) {
    if (visited++ == 0) {
      EXPECT_EQ(Text(record.notes), " ?0=1");
    }
    return record.call == 9 ? failed : absl::OkStatus();
  });
  // The last call that is entered frees the tenth one.
  EXPECT_EQ(read, failed);
  EXPECT_EQ(visited, 19u);
}

TEST(LaterNotesReader, WaitsForSoManyBytes) {
  FakeTrace trace;
  trace.AddProcess({});
  trace.In(1, 0);
  for (uint64_t i = 0; i < 10; ++i) {
    trace.Enter(kCall, "", Own(0));
    trace.Return({TensorValue({4})}, Own(0) + Own(1));
  }
  trace.Later(9, LaterOf::kArguments, Later(0, 4));
  trace.Later(0, LaterOf::kArguments, Later(0, 4));
  trace.Later(0, LaterOf::kResult, Later(0, 4) + Later(1, 4));
  LaterNotesReader reader(&trace, 1000);
  const std::vector<std::string> records = Records(&reader);
  ASSERT_EQ(records.size(), 20u);
  EXPECT_EQ(records[0], "enter 0 0");
  EXPECT_EQ(records[1], "leave 0 0 1");
  EXPECT_EQ(records[18], "enter 9 0=4");
  EXPECT_THAT(reader.too_late(), ElementsAre(0, 3));
}

// The first of them is reached though nothing more is called.
TEST(LaterNotesReader, OfALog) {
  const auto trace = OpenLogs("testdata/logs/v1/later.ttlog").value();
  LaterNotesReader reader(trace.get());
  EXPECT_THAT(Records(&reader),
              ElementsAre("enter 0 ?0=1 ?1=2", "leave 0 ?0=4 wrote ?0=3", "enter 1", "enter 2", "leave 2",
                          "leave 1 wrote ?0=7", "enter 3", "leave 3 wrote ?0=9", "enter 4", "leave 4 wrote ?0=8"));
  EXPECT_EQ(reader.all_too_late(), 0u);
}

TEST(LaterNotesReader, ReadsAgainOnlyIfNotesComeLater) {
  for (const bool later : {false, true}) {
    FakeTrace trace;
    trace.Enter(kCall, "", Own(0));
    trace.Return({TensorValue({4})}, Own(0, 1));
    if (later) trace.Later(0, LaterOf::kArguments, Later(0, 2));
    LaterNotesReader reader(&trace);
    int begun = 0;
    std::string text;
    const absl::Status read = reader.ReadOnceOrTwice(
        [&] {
          ++begun;
          text.clear();
          return absl::OkStatus();
        },
        [&text](const CallRecord& record) {
          absl::StrAppend(&text, Text(record.notes), Text(record.result.notes));
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
    EXPECT_EQ(begun, later ? 2 : 1);
    EXPECT_EQ(text, later ? " 0=2 0=1" : " 0 0=1");
    EXPECT_EQ(reader.found_later(), later);
  }
}

}  // namespace
}  // namespace torchtrace
