// Logs of every version must stay readable: testdata/logs/v<version> holds some,
// each with the expected output of a reader. The current writers produce the same
// bytes; to rewrite them (a change of the format, see docs/FORMAT.md):
//   TORCHTRACE_BLESS=$PWD/testdata/logs bazel run //serialize/log:tests -- --gtest_filter=LogGoldenTest.*

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/log/call_counts.h"
#include "serialize/log/call_writer.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_trace.h"
#include "serialize/model/tensor_notes.h"
#include "serialize/model/value.h"
#include "serialize/testing/log_samples.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

// The worked example of docs/FORMAT.md.
void WriteTinyLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 100).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  std::string identity = "\1";
  AppendString("torch.add", &identity);
  AppendVarint(1, &identity);  // one positional argument
  ValueWriter value(&identity);
  value.BeginTensor(0, "float32", "cpu");
  value.Rank(2);
  value.Dim(2);
  value.Dim(3);
  AppendVarint(1, &identity);  // one named argument
  AppendString("alpha", &identity);
  value.Int(10);
  std::string facets;
  AppendVarint(1, &facets);  // of one tensor:
  AppendVarint(0, &facets);  // the first
  AppendVarint(1, &facets);  // requires a gradient
  const uint64_t definition = calls.Define(identity, facets);
  calls.Enter(definition, 1005);
  calls.Leave(1205);
  calls.Enter(definition, 1300);
  calls.Raise(1400, "RuntimeError");
  LogWriter::Close(frame, calls.calls());
}

// Stacks: a whole one, one that shares its callers, none, one of another thread.
void WriteStacksLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"stacks":"all","stack_format":"short"})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
  const uint64_t main = calls.Place(calls.Code(false, "/home/me/train.py", "<module>", "__main__"), 30, 0);
  const uint64_t step = calls.Code(false, "/home/me/train.py", "Step.run", "__main__");
  calls.Stack(calls.Place(step, 12, main + 1));
  calls.Enter(add, 1005);
  calls.Leave(1010);
  const uint64_t torch = calls.Code(true, "/opt/torch/nn/functional.py", "relu", "torch.nn.functional");
  calls.Stack(calls.Place(torch, 1700, calls.Place(step, 13, main + 1) + 1));
  calls.Enter(add, 1015);
  calls.Leave(1020);
  calls.Enter(add, 1025);
  calls.Leave(1030);
  calls.Thread(1, 4712, 1035, 0, 0, "worker");
  calls.Stack(main);
  calls.Enter(add, 1040);
  calls.Leave(1045);
  LogWriter::Close(frame, calls.calls());
}

// A forward call, one without facts, a backward node of another thread, a user's scope.
void WriteFactsLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  const uint64_t add = calls.Define(SampleIdentity(4, "aten::add.Tensor"), "");
  calls.Facts({.thread = 1, .sequence = 300});
  calls.Enter(add, 1005);
  calls.Enter(add, 1006);
  calls.Leave(1010);
  calls.Leave(1010);
  calls.Facts({.scope = kBackwardScope, .thread = 2, .sequence = 300, .forward_thread = 1, .id = 7});
  calls.Enter(calls.Define(SampleIdentity(4, "AddBackward0"), ""), 1015);
  calls.Leave(1020);
  calls.Facts({.scope = kUserScope, .thread = 2});
  calls.Enter(calls.Define(SampleIdentity(4, "step"), ""), 1025);
  calls.Leave(1030);
  LogWriter::Close(frame, calls.calls());
}

// Notes on a call's tensors and on its result, on a call that raises, and on one that returns nothing.
void WriteNotesLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"ids":true,"outputs":true})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
  std::string notes, result_notes, values;
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{300, 7, 12}}, &notes);
  AppendTensorNote({.position = 2, .range = TensorNote::Range{-5, 3}, .contents = "\x01\xff"}, &notes);
  AppendTensorNote({.position = 0, .identity = TensorNote::Identity{301, 8, 0}}, &result_notes);
  AppendVarint(1, &values);
  ValueWriter(&values).Int(7);
  calls.Notes(notes);
  calls.Enter(add, 1005);
  calls.Enter(add, 1006);
  calls.Raise(1008, "ValueError");
  calls.Result({values, result_notes});
  calls.Leave(1010);
  calls.Enter(add, 1015);
  calls.Leave(1020);
  LogWriter::Close(frame, calls.calls());
}

// The schema of an operator before its first definition; where it comes again with another one, that counts.
void WriteSchemasLog(const std::string& path) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(R"({"format":1,"schemas":{"own::f":"told as metadata"}})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 1000).value();
  CallWriter calls(frame);
  calls.Thread(0, 4711, 1000, 0, 0, "main");
  calls.Schema("aten::t", "aten::t(Tensor(a) self) -> Tensor(a)");
  calls.Enter(calls.Define(SampleIdentity(2, "aten::t"), ""), 1005);
  calls.Leave(1010);
  calls.Schema("own::g", "own::g() -> ()");
  calls.Enter(calls.Define(SampleIdentity(2, "own::g"), ""), 1015);
  calls.Leave(1020);
  calls.Schema("own::g", "own::g(int n) -> ()");
  calls.Enter(calls.Define(SampleIdentity(2, "own::g", 1), ""), 1025);
  calls.Leave(1030);
  LogWriter::Close(frame, calls.calls());
}

// Calls that are listed, and counted.
void WriteCountsLog(const std::string& path) {
  SampleLog log(path, R"({"max_size":1000})");
  log.Call(0, 1, "torch.add", 2);
  CountWriter counts;
  counts.Continue(log.writer().Reserve(FrameType::kCounts, SampleLog::kSmallFrame).value());
  for (const auto& [api, calls] : {std::pair("torch.add", 3), std::pair("torch.relu", 300)}) {
    const std::string identity = SampleIdentity(1, api);
    std::string_view stored;
    counts.Add(identity + '\0', static_cast<uint32_t>(identity.size()), static_cast<uint64_t>(calls), &stored);
  }
  log.CloseFrames();
}

// One process that ended in order, one that was killed, one whose calls were
// written one by one.
void WriteMergedLog(const std::string& path) {
  const auto writer = TraceWriter::Create(path).value();
  for (const SampleEnd end : {SampleEnd::kKilled, SampleEnd::kInOrder}) {
    const std::string source = path + ".source";
    std::filesystem::remove(source);
    WriteSampleLog(source, end);
    nlohmann::json metadata = *OpenLogs(source).value()->processes()[0].metadata;
    metadata["label"] = end == SampleEnd::kKilled ? "first" : "second";
    const uint32_t process = writer->AddProcess(metadata).value();
    ASSERT_TRUE(writer->CopyCalls(*LogReader::Open(source).value(), 0, process).ok());
    std::filesystem::remove(source);
  }
  const uint32_t process = writer->AddProcess({{"role", "main"}, {"damage", {{"lost_calls", 3}}}}).value();
  writer->NameThread(process, 1, 22, "worker");
  ASSERT_TRUE(writer->Enter(process, 0, 5, SampleIdentity(1, "torch.add"), "").ok());
  ASSERT_TRUE(writer->Enter(process, 1, 6, SampleIdentity(1, "torch.add"), "").ok());
  ASSERT_TRUE(writer->Raise(process, 0, 7, "ValueError").ok());
  ASSERT_TRUE(writer->Finish().ok());
}

// By path below testdata/logs, without the suffix.
const std::map<std::string, std::function<void(const std::string&)>> kLogs = {
    {"v1/tiny", WriteTinyLog},
    {"v1/stacks", WriteStacksLog},
    {"v1/facts", WriteFactsLog},
    {"v1/notes", WriteNotesLog},
    {"v1/schemas", WriteSchemasLog},
    {"v1/counts", WriteCountsLog},
    {"v1/numbers", WriteNumbersLog},
    {"v1/later", WriteLaterLog},
    {"v1/memory", WriteMemoryLog},
    {"v1/steps", WriteStepsLog},
    {"v1/sample", [](const std::string& path) { WriteSampleLog(path, SampleEnd::kInOrder); }},
    {"v1/killed", [](const std::string& path) { WriteSampleLog(path, SampleEnd::kKilled); }},
    {"v2/merged", WriteMergedLog},
};

std::string DumpLog(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Trace>> trace = OpenLogs(path);
  if (!trace.ok()) return trace.status().ToString();
  EXPECT_EQ(CompareReadings(path), "");
  std::string dump;
  EXPECT_TRUE((*trace)->Count().ok());
  for (const ProcessInfo& process : (*trace)->processes()) absl::StrAppend(&dump, process.metadata->dump(), "\n");
  absl::StrAppend(&dump, DumpTrace(trace->get()));
  for (ConfigId config = 0; config < (*trace)->config_count(); ++config) {
    absl::StrAppendFormat(&dump, "config %d:", config);
    for (const char byte : (*trace)->identity(config))
      absl::StrAppendFormat(&dump, " %02x", static_cast<uint8_t>(byte));
    absl::StrAppend(&dump, "\n");
  }
  return dump;
}

TEST(LogGoldenTest, EveryVersionIsRead) {
  for (const auto& [name, write] : kLogs) {
    const std::string path = absl::StrCat("testdata/logs/", name);
    EXPECT_EQ(DumpLog(path + ".ttlog"), ReadFile(path + ".txt")) << name;
  }
}

TEST(LogGoldenTest, CurrentVersionIsWritten) {
  static_assert(kLogVersion == 2, "keep testdata/logs/v*, and write the new version's beside them");
  const std::string folder = TestFolder();
  for (const auto& [name, write] : kLogs) {
    const std::string path = absl::StrCat(folder, "/log.ttlog");
    std::filesystem::remove(path);
    write(path);
    const std::string log = ReadFile(path);
    if (const char* const bless = std::getenv("TORCHTRACE_BLESS")) {
      WriteFile(absl::StrCat(bless, "/", name, ".ttlog"), log);
      WriteFile(absl::StrCat(bless, "/", name, ".txt"), DumpLog(path));
    } else {
      EXPECT_TRUE(log == ReadFile(absl::StrCat("testdata/logs/", name, ".ttlog"))) << name;
    }
  }
}

// The hex lines of the worked example are the tiny log's bytes.
TEST(LogGoldenTest, ExampleInTheSpecificationIsTrue) {
  const std::string log = ReadFile("testdata/logs/v1/tiny.ttlog");
  std::istringstream text(ReadFile("docs/FORMAT.md"));
  uint64_t checked = 0;
  for (std::string line; std::getline(text, line);) {
    // `00001000  54 54 46 52   magic`: an offset, two blanks, bytes, three blanks.
    if (line.size() < 12 || line.find_first_not_of("0123456789abcdef") != 8 || line.compare(8, 2, "  ") != 0) continue;
    std::istringstream fields(line);
    uint64_t offset;
    fields >> std::hex >> offset;
    std::istringstream bytes(line.substr(10, line.find("   ", 10) - 10));
    for (uint32_t byte; bytes >> std::hex >> byte; ++offset, ++checked) {
      ASSERT_LT(offset, log.size()) << line;
      ASSERT_EQ(byte, static_cast<uint8_t>(log[offset])) << line;
    }
  }
  EXPECT_GT(checked, 200u);
}

}  // namespace
}  // namespace torchtrace
