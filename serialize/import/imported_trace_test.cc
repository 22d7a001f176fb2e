#include "serialize/import/imported_trace.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/model/config.h"
#include "serialize/testing/fake_trace.h"

namespace torchtrace {
namespace {

struct Call {
  std::string api;
  uint32_t depth = 0;
  int64_t start_ns = kUnknownTime;
  int64_t end_ns = kUnknownTime;
  uint32_t thread = 0;
  CallOutcome outcome = CallOutcome::kReturned;
  std::string exception = {};
  uint64_t count = 1;
};

class FakeSource : public CallSource {
 public:
  explicit FakeSource(std::vector<Call> calls) : calls_(std::move(calls)) {}

  std::string format() const override { return "fake calls"; }
  std::vector<std::string> notes() const override { return {"it is a fake"}; }
  const std::vector<ImportedProcess>& processes() const override { return processes_; }
  absl::Status Scan(const Visitor& visit) override {
    for (const Call& call : calls_) {
      if (call.api.empty()) return absl::InvalidArgumentError("the file is faulty");
      const std::string identity = EncodeConfig(MakeConfig(1, call.api));
      ImportedCall imported;
      imported.identity = identity;
      imported.count = call.count;
      imported.thread = call.thread;
      imported.depth = call.depth;
      imported.start_ns = call.start_ns;
      imported.end_ns = call.end_ns;
      imported.outcome = call.outcome;
      imported.exception = call.exception;
      if (absl::Status s = visit(imported); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Call> calls_;
  const std::vector<ImportedProcess> processes_{1};
};

std::unique_ptr<ImportedTrace> Make(std::vector<Call> calls) {
  return std::make_unique<ImportedTrace>("file.txt", 123, std::make_unique<FakeSource>(std::move(calls)));
}

// `0 a(` enters, `0 a)` leaves, `0 a!` raises; followed by thread (unless 0), depth, parent and time.
std::vector<std::string> Steps(Trace* trace) {
  std::vector<std::string> steps;
  const absl::Status read = trace->Read([&](const CallRecord& record) {
    const std::string api(ReadConfigHead(trace->identity(record.config)).api);
    std::string step = absl::StrCat(record.call, " ", api, std::string(1, "()!"[record.kind]));
    if (record.thread != 0) absl::StrAppend(&step, " thread ", record.thread);
    if (record.depth != 0) absl::StrAppend(&step, " depth ", record.depth);
    if (record.parent != kNoCall) absl::StrAppend(&step, " in ", record.parent);
    if (record.time_ns != 0) absl::StrAppend(&step, " at ", record.time_ns);
    if (record.kind != CallRecord::kEnter && record.duration_ns != 0)
      absl::StrAppend(&step, " took ", record.duration_ns);
    if (!record.exception.empty()) absl::StrAppend(&step, " ", std::string(record.exception));
    steps.push_back(step);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return steps;
}

using Expected = std::vector<std::string>;

TEST(ImportedTrace, DepthsMakeTheEnds) {
  const auto trace = Make({{"a"}, {"b", 1}, {"c", 2}, {"b", 1}, {"a"}});
  const Expected expected = {"0 a(",
                             "1 b( depth 1 in 0",
                             "2 c( depth 2 in 1",
                             "2 c) depth 2 in 1",
                             "1 b) depth 1 in 0",
                             "3 b( depth 1 in 0",
                             "3 b) depth 1 in 0",
                             "0 a)",
                             "4 a(",
                             "4 a)"};
  EXPECT_EQ(Steps(trace.get()), expected);
  EXPECT_EQ(Steps(trace.get()), expected);
  EXPECT_EQ(*trace->Count(), (std::vector<uint64_t>{2, 2, 1}));
  EXPECT_EQ(trace->processes()[0].calls, 5u);
  EXPECT_EQ(trace->processes()[0].path, "file.txt");
  EXPECT_EQ(trace->processes()[0].file_bytes, 123u);
  EXPECT_TRUE(trace->processes()[0].closed);
  EXPECT_EQ(trace->source().format(), "fake calls");
  EXPECT_EQ(trace->source().notes(), std::vector<std::string>{"it is a fake"});
}

TEST(ImportedTrace, CountsAreRepeats) {
  std::vector<Call> calls = {{"a"}, {"b"}};
  calls[0].count = 3;
  const auto trace = Make(calls);
  EXPECT_EQ(*trace->Count(), (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(Steps(trace.get()), (Expected{"0 a(", "0 a)", "1 a(", "1 a)", "2 a(", "2 a)", "3 b(", "3 b)"}));
}

TEST(ImportedTrace, TimesOrderTheThreads) {
  const auto trace = Make({{"a", 0, 10, 100, 0}, {"b", 0, 20, 30, 1}, {"c", 1, 40, 50, 0}, {"d", 0, 60, 200, 1}});
  EXPECT_EQ(Steps(trace.get()),
            (Expected{"0 a( at 10", "1 b( thread 1 at 20", "1 b) thread 1 at 30 took 10", "2 c( depth 1 in 0 at 40",
                      "2 c) depth 1 in 0 at 50 took 10", "3 d( thread 1 at 60", "0 a) at 100 took 90",
                      "3 d) thread 1 at 200 took 140"}));
  EXPECT_EQ(trace->processes()[0].threads.size(), 2u);
  EXPECT_EQ(trace->processes()[0].threads[1].calls, 2u);
}

TEST(ImportedTrace, NoCallEndsBeforeOneInside) {
  // The parent's end is too early, and a child begins at its very end.
  const auto trace = Make({{"a", 0, 10, 20}, {"b", 1, 15, 40}, {"c", 1, 40, 40}, {"d", 0, 50, 60}});
  EXPECT_EQ(Steps(trace.get()), (Expected{"0 a( at 10", "1 b( depth 1 in 0 at 15", "1 b) depth 1 in 0 at 40 took 25",
                                          "2 c( depth 1 in 0 at 40", "2 c) depth 1 in 0 at 40", "0 a) at 40 took 30",
                                          "3 d( at 50", "3 d) at 60 took 10"}));
}

TEST(ImportedTrace, OverlapIsCutAtTheNextCall) {
  const auto trace = Make({{"a", 0, 10, 30}, {"b", 0, 20, 40}});
  EXPECT_EQ(Steps(trace.get()), (Expected{"0 a( at 10", "0 a) at 20 took 10", "1 b( at 20", "1 b) at 40 took 20"}));
}

TEST(ImportedTrace, OutcomesAndMissingParents) {
  const auto trace = Make({{"a", 0, 10, 20, 0, CallOutcome::kRaised, "ValueError"},
                           {"b", 3, 30, 40},
                           {"c", 0, 50, kUnknownTime, 0, CallOutcome::kNeverReturned},
                           {"d", 1, 60, 70}});
  EXPECT_EQ(Steps(trace.get()),
            (Expected{"0 a( at 10", "0 a! at 20 took 10 ValueError", "1 b( depth 3 at 30", "1 b) depth 3 at 40 took 10",
                      "2 c( at 50", "3 d( depth 1 in 2 at 60", "3 d) depth 1 in 2 at 70 took 10"}));
  EXPECT_EQ(trace->processes()[0].open_calls, 1u);
}

TEST(ImportedTrace, ErrorsEndTheReading) {
  const auto faulty = Make({{"a"}, {""}});
  EXPECT_EQ(faulty->Count().status().message(), "the file is faulty");
  EXPECT_EQ(faulty->Read([](const CallRecord&) { return absl::OkStatus(); }).message(), "the file is faulty");
  const auto trace = Make({{"a"}, {"b"}});
  int records = 0;
  const absl::Status read =
      trace->Read([&](const CallRecord&) { return ++records < 3 ? absl::OkStatus() : absl::CancelledError("enough"); });
  EXPECT_EQ(read.message(), "enough");
  EXPECT_EQ(records, 3);
  EXPECT_EQ(*trace->Count(), (std::vector<uint64_t>{1, 1}));
}

}  // namespace
}  // namespace torchtrace
