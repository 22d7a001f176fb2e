// Stacks in logs: writing and reading them, also from damaged logs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "serialize/edit/edit.h"
#include "serialize/forms/trace_lines.h"
#include "serialize/log/call_writer.h"
#include "serialize/log/log_reader.h"
#include "serialize/log/log_trace.h"
#include "serialize/log/log_writer.h"
#include "serialize/render/render.h"
#include "serialize/reports/reports.h"
#include "serialize/testing/log_samples.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kMetadata[] =
    R"({"format":1,"role":"main","levels":[1],"stacks":"all","stack_format":"short","cwd":"/home/me"})";

// Three places: a line of the script, which calls a line of a function, which calls a line of the library.
struct Places {
  uint64_t script, function, library;
};
Places WritePlaces(CallWriter* calls) {
  const uint64_t main = calls->Code(false, "/home/me/train.py", "<module>", "__main__");
  const uint64_t step = calls->Code(false, "/opt/x/site-packages/pkg/step.py", "Step.run", "pkg.step");
  const uint64_t torch = calls->Code(true, "/opt/x/site-packages/torch/functional.py", "relu", "torch.functional");
  Places places;
  places.script = calls->Place(main, 7, 0);
  places.function = calls->Place(step, 20, places.script + 1);
  places.library = calls->Place(torch, 300, places.function + 1);
  return places;
}

// Calls: 0 within the library, 1 without a stack, 2 in the script, and in it 3 in the function, 4 in the library.
void WriteLog(const std::string& path, const std::string& metadata = kMetadata) {
  const auto writer = LogWriter::Create(path).value();
  ASSERT_TRUE(writer->AppendMetadata(metadata).ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 4000).value();
  CallWriter calls(frame);
  calls.Thread(0, 11, 1000, 0, 0, "main");
  const Places places = WritePlaces(&calls);
  const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
  const uint64_t mul = calls.Define(SampleIdentity(1, "torch.mul"), "");
  calls.Stack(places.library);
  calls.Enter(add, 1010);
  calls.Leave(1020);
  calls.Enter(add, 1030);
  calls.Leave(1040);
  calls.Stack(places.script);
  calls.Enter(mul, 1050);
  calls.Stack(places.function);
  calls.Enter(add, 1060);
  calls.Leave(1070);
  calls.Stack(places.library);
  calls.Enter(mul, 1080);
  calls.Leave(1090);
  calls.Leave(1100);
  LogWriter::Close(frame, calls.calls());
}

// The stacks of all calls: `short` frames, innermost first, with blanks between; empty: none.
std::vector<std::string> Stacks(Trace* trace) {
  std::vector<std::string> stacks;
  const absl::Status read = trace->Read([&](const CallRecord& call) {
    if (call.kind != CallRecord::kEnter) {
      EXPECT_EQ(call.stack, kNoStack);
      return absl::OkStatus();
    }
    StackText text(*trace);
    std::string line;
    for (const std::string& frame : text.Frames(call.stack, StackFormat::kShort)) absl::StrAppend(&line, frame, "; ");
    stacks.push_back(line);
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return stacks;
}

std::vector<std::string> Stacks(const std::string& path) {
  const auto trace = OpenLogs(path);
  if (!trace.ok()) return {trace.status().ToString()};
  return Stacks(trace->get());
}

const std::vector<std::string> kStacks = {"functional.py:300 in relu; step.py:20 in run; train.py:7 in <module>; ", "",
                                          "train.py:7 in <module>; ", "step.py:20 in run; train.py:7 in <module>; ",
                                          "functional.py:300 in relu; step.py:20 in run; train.py:7 in <module>; "};

TEST(Stack, GoesWithTheNextCallAlone) {
  const std::string path = TestFolder() + "/log.ttlog";
  WriteLog(path);
  EXPECT_EQ(Stacks(path), kStacks);
  const auto trace = OpenLogs(path).value();
  EXPECT_TRUE(trace->Count().ok());
  EXPECT_TRUE(trace->processes()[0].damage.sentences.empty());
  EXPECT_EQ(trace->processes()[0].calls, 5u);
}

TEST(Stack, TheSameStackHasOneId) {
  const std::string path = TestFolder() + "/log.ttlog";
  WriteLog(path);
  const auto trace = OpenLogs(path).value();
  std::vector<StackId> ids;
  for (int reading = 0; reading < 2; ++reading) {
    EXPECT_TRUE(trace
                    ->Read([&](const CallRecord& call) {
                      if (call.kind == CallRecord::kEnter) ids.push_back(call.stack);
                      return absl::OkStatus();
                    })
                    .ok());
  }
  ASSERT_EQ(ids.size(), 10u);
  EXPECT_EQ(ids[0], ids[4]);
  EXPECT_NE(ids[0], ids[3]);
  EXPECT_EQ(std::vector<StackId>(ids.begin(), ids.begin() + 5), std::vector<StackId>(ids.begin() + 5, ids.end()));
}

TEST(Stack, CallingLineIsOutsideOfTheLibrary) {
  StackTable table;
  const uint32_t user = table.InternCode({"a.py", "f", "a", false});
  const uint32_t library = table.InternCode({"t.py", "g", "t", true});
  const StackId inside = table.InternPlace({kNoStack, library, 1});
  const StackId script = table.InternPlace({inside, user, 2});
  const StackId deep = table.InternPlace({table.InternPlace({script, library, 3}), library, 4});
  EXPECT_EQ(table.line(table.calling_line(deep)).line, 2u);
  EXPECT_EQ(table.calling_line(deep), table.calling_line(script));
  // If all places are in the library, the innermost one.
  EXPECT_EQ(table.line(table.calling_line(inside)).line, 1u);
  const StackId deeper = table.InternPlace({inside, library, 5});
  EXPECT_EQ(table.line(table.calling_line(deeper)).line, 5u);
  EXPECT_EQ(table.InternPlace({inside, user, 2}), script);
}

// If a log ends at any byte, readers get whole stacks, maybe fewer.
TEST(Stack, CutLogsKeepWholeStacks) {
  const std::string folder = TestFolder();
  const std::string path = folder + "/log.ttlog";
  WriteLog(path);
  const std::string log = ReadFile(path);
  size_t most = 0;
  for (size_t bytes = 2 * size_t{kPageBytes}; bytes < std::min<size_t>(log.size(), 2 * size_t{kPageBytes} + 800);
       ++bytes) {
    const std::string cut = folder + "/cut.ttlog";
    WriteFile(cut, std::string_view(log).substr(0, bytes));
    const std::vector<std::string> stacks = Stacks(cut);
    if (stacks.size() == 1 && stacks[0].find(".ttlog") != std::string::npos) continue;  // not a frame yet
    ASSERT_LE(stacks.size(), kStacks.size());
    ASSERT_EQ(stacks,
              std::vector<std::string>(kStacks.begin(), kStacks.begin() + static_cast<ptrdiff_t>(stacks.size())))
        << bytes;
    most = std::max(most, stacks.size());
  }
  EXPECT_EQ(most, kStacks.size());
}

TEST(Stack, WhatIsNotThereIsNoStack) {
  const std::string path = TestFolder() + "/log.ttlog";
  {
    const auto writer = LogWriter::Create(path).value();
    ASSERT_TRUE(writer->AppendMetadata(kMetadata).ok());
    const Frame frame = writer->Reserve(FrameType::kCalls, 4000).value();
    CallWriter calls(frame);
    calls.Thread(0, 11, 1000, 0, 0, "main");
    const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
    calls.Stack(5);
    calls.Enter(add, 1010);
    calls.Leave(1020);
    const uint64_t unknown_code = calls.Place(9, 1, 0);
    calls.Stack(unknown_code);
    calls.Enter(add, 1030);
    calls.Leave(1040);
    const uint64_t code = calls.Code(false, "a.py", "f", "a");
    const uint64_t own_caller = calls.Place(code, 2, 100);
    calls.Stack(own_caller);
    calls.Enter(add, 1050);
    calls.Leave(1060);
    calls.Stack(calls.Place(code, 3, unknown_code + 1));
    calls.Enter(add, 1070);
    calls.Leave(1080);
    LogWriter::Close(frame, calls.calls());
  }
  EXPECT_THAT(Stacks(path), ElementsAre("", "", "", "a.py:3 in f; "));
}

// If another thread continues in a frame, its numbers continue, and it can use the first one's places.
TEST(Stack, ThreadsThatShareAFrame) {
  const std::string path = TestFolder() + "/log.ttlog";
  {
    const auto writer = LogWriter::Create(path).value();
    ASSERT_TRUE(writer->AppendMetadata(kMetadata).ok());
    const Frame frame = writer->Reserve(FrameType::kCalls, 4000).value();
    CallWriter calls(frame);
    calls.Thread(0, 11, 1000, 0, 0, "main");
    const Places places = WritePlaces(&calls);
    const uint64_t add = calls.Define(SampleIdentity(1, "torch.add"), "");
    calls.Enter(add, 1010);
    calls.Leave(1020);
    calls.Stack(places.script);
    calls.Thread(1, 12, 1030, 0, 0, "other");
    calls.Enter(add, 1040);
    calls.Leave(1050);
    const uint64_t place = calls.Place(calls.Code(false, "b.py", "g", "b"), 1, places.script + 1);
    calls.Stack(place);
    calls.Enter(add, 1060);
    calls.Leave(1070);
    LogWriter::Close(frame, calls.calls());
  }
  EXPECT_THAT(Stacks(path), ElementsAre("", "", "b.py:1 in g; train.py:7 in <module>; "));
}

TEST(Stack, TextsAreCut) {
  const std::string path = TestFolder() + "/log.ttlog";
  {
    const auto writer = LogWriter::Create(path).value();
    const Frame frame = writer->Reserve(FrameType::kCalls, 20000).value();
    CallWriter calls(frame);
    calls.Thread(0, 11, 1000, 0, 0, "main");
    calls.Stack(calls.Place(calls.Code(false, "f", std::string(10000, 'x'), ""), 1, 0));
    calls.Enter(calls.Define(SampleIdentity(1, "torch.add"), ""), 1010);
    LogWriter::Close(frame, calls.calls());
  }
  EXPECT_THAT(Stacks(path), ElementsAre(absl::StrCat("f:1 in ", std::string(4096, 'x'), "; ")));
}

// Calls written one by one, like `merge` of other formats and `filter`, over many frames and from two traces.
TEST(Stack, TraceWriterKeepsThem) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog");
  const auto source = OpenLogs(folder + "/log.ttlog").value();
  const std::string path = folder + "/written.ttlog";
  std::vector<std::string> expected;
  {
    const auto writer = TraceWriter::Create(path).value();
    ASSERT_TRUE(writer->AddProcess(nlohmann::json::parse(kMetadata)).ok());
    for (uint64_t i = 0; i < 3000; ++i) {
      ASSERT_TRUE(source
                      ->Read([&](const CallRecord& call) {
                        if (call.kind != CallRecord::kEnter) return writer->Leave(0, 0, 100 * i);
                        writer->Stack(0, 0, source->stacks(), call.stack);
                        return writer->Enter(0, 0, 100 * i, source->identity(call.config), "");
                      })
                      .ok());
      expected.insert(expected.end(), kStacks.begin(), kStacks.end());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }
  EXPECT_GT(LogReader::Open(path).value()->frames().size(), 4u);
  EXPECT_TRUE(Stacks(path) == expected);
}

TEST(Stack, MergeKeepsThem) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog");
  const std::vector<MergeInput> inputs = {{folder + "/log.ttlog", "a"}, {folder + "/log.ttlog", "b"}};
  ASSERT_TRUE(MergeInputs(inputs, folder + "/merged.ttlog", nullptr, nullptr).ok());
  std::vector<std::string> stacks = Stacks(folder + "/merged.ttlog");
  std::vector<std::string> twice = kStacks;
  twice.insert(twice.end(), kStacks.begin(), kStacks.end());
  EXPECT_THAT(stacks, testing::UnorderedElementsAreArray(twice));
}

TEST(Stack, NamesOfFiles) {
  const std::string path = TestFolder() + "/log.ttlog";
  WriteLog(path);
  const auto trace = OpenLogs(path).value();
  const StackText text(*trace);
  EXPECT_EQ(text.File("/home/me/sub/a.py"), "sub/a.py");
  EXPECT_EQ(text.File("/home/meow/a.py"), "/home/meow/a.py");
  EXPECT_EQ(text.File("/opt/lib/site-packages/pkg/a.py"), "pkg/a.py");
  EXPECT_EQ(text.File("/home/me/.venv/lib/python3/site-packages/pkg/a.py"), "pkg/a.py");
  EXPECT_EQ(text.File("<string>"), "<string>");
}

TEST(Stack, FormsOfAFrame) {
  const std::string folder = TestFolder();
  WriteFile(folder + "/train.py", "1\n2\n3\n4\n5\n6\n    step.run()  \n");
  const std::string file = folder + "/train.py";
  const std::string path = folder + "/log.ttlog";
  const auto write = [&](const std::string& metadata) {
    std::filesystem::remove(path);
    const auto writer = LogWriter::Create(path).value();
    EXPECT_TRUE(writer->AppendMetadata(metadata).ok());
    const Frame frame = writer->Reserve(FrameType::kCalls, 4000).value();
    CallWriter calls(frame);
    calls.Thread(0, 11, 1000, 0, 0, "main");
    const uint64_t main = calls.Place(calls.Code(false, file, "<module>", "__main__"), 7, 0);
    const uint64_t method = calls.Place(calls.Code(false, "/x/net.py", "Net.forward", "pkg.net"), 8, main + 1);
    const uint64_t nameless = calls.Place(calls.Code(false, "/x/y.py", "f", ""), 9, method + 1);
    calls.Stack(nameless);
    calls.Enter(calls.Define(SampleIdentity(1, "torch.add"), ""), 1010);
    LogWriter::Close(frame, calls.calls());
  };
  const auto frames = [&](StackFormat format) {
    const auto trace = OpenLogs(path).value();
    StackId stack = kNoStack;
    EXPECT_TRUE(trace
                    ->Read([&](const CallRecord& call) {
                      stack = call.stack;
                      return absl::OkStatus();
                    })
                    .ok());
    return StackText(*trace).Frames(stack, format);
  };
  write(R"({"stacks":"all"})");
  EXPECT_THAT(frames(StackFormat::kShort), ElementsAre("y.py:9 in f", "net.py:8 in forward", "train.py:7 in <module>"));
  EXPECT_THAT(frames(StackFormat::kApi),
              ElementsAre("<UnknownModule>.y.py.f", "pkg.net.Net.forward", "__main__.train.py.<module>"));
  EXPECT_THAT(frames(StackFormat::kFull),
              ElementsAre("  File \"/x/y.py\", line 9, in f", "  File \"/x/net.py\", line 8, in forward",
                          absl::StrCat("  File \"", file, "\", line 7, in <module>\n    step.run()")));
  // The file has changed since the recording: its line is unknown.
  write(R"({"stacks":"all","clock":{"unit_ns":1,"origin_units":0,"origin_monotonic_ns":0,"origin_realtime_ns":1000}})");
  EXPECT_EQ(frames(StackFormat::kFull)[2], absl::StrCat("  File \"", file, "\", line 7, in <module>"));
}

// Readers limit the frames of a stack: a place of a few bytes must not add a line to every deeper stack.
TEST(Stack, FramesAreNoMoreThanAreRecorded) {
  const std::string path = TestFolder() + "/log.ttlog";
  const auto writer = LogWriter::Create(path).value();
  EXPECT_TRUE(writer->AppendMetadata(R"({"stacks":"all"})").ok());
  const Frame frame = writer->Reserve(FrameType::kCalls, 100'000).value();
  CallWriter calls(frame);
  calls.Thread(0, 11, 1000, 0, 0, "main");
  const uint64_t code = calls.Code(false, "/x/y.py", "f", "");
  uint64_t place = calls.Place(code, 1, 0);
  for (uint64_t line = 2; line <= 1000; ++line) place = calls.Place(code, line, place + 1);
  calls.Stack(place);
  calls.Enter(calls.Define(SampleIdentity(1, "torch.add"), ""), 1010);
  LogWriter::Close(frame, calls.calls());
  const std::vector<std::string> stacks = Stacks(path);
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_TRUE(stacks[0].starts_with("y.py:1000 in f; y.py:999 in f; "));
  EXPECT_TRUE(stacks[0].ends_with("; y.py:745 in f; ")) << stacks[0].substr(stacks[0].size() - 40);
}

TEST(Stack, DumpHasAColumn) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog");
  const auto trace = OpenLogs(folder + "/log.ttlog").value();
  std::ostringstream out;
  ASSERT_TRUE(WriteDump(trace.get(), {}, &out).ok());
  EXPECT_EQ(out.str(),
            "      0  pkg/step.py:20  torch.add(0)  10 ns\n"
            "      1                  torch.add(0)  10 ns\n"
            "      2  train.py:7      torch.mul(0)  50 ns\n"
            "      3  pkg/step.py:20    torch.add(0)  10 ns\n"
            "      4  pkg/step.py:20    torch.mul(0)  10 ns\n");
  DumpOptions options;
  options.stacks = StackFormat::kApi;
  options.calls = *NumberSet::Parse("3");
  out.str("");
  ASSERT_TRUE(WriteDump(trace.get(), options, &out).ok());
  EXPECT_EQ(out.str(),
            "      3  pkg/step.py:20  torch.add(0)  10 ns\n"
            "           pkg.step.Step.run\n"
            "           __main__.train.py.<module>\n");
  options.format = DumpFormat::kJsonl;
  out.str("");
  ASSERT_TRUE(WriteDump(trace.get(), options, &out).ok());
  const nlohmann::json call = nlohmann::json::parse(out.str());
  EXPECT_EQ(call["file"], "/opt/x/site-packages/pkg/step.py");
  EXPECT_EQ(call["line"], 20);
  EXPECT_EQ(call["function"], "Step.run");
  EXPECT_EQ(call["stack"], nlohmann::json::parse(R"(["pkg.step.Step.run", "__main__.train.py.<module>"])"));
}

TEST(Stack, DumpWithoutStacksHasNoColumn) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog", R"({"format":1})");
  const auto trace = OpenLogs(folder + "/log.ttlog").value();
  std::ostringstream out;
  DumpOptions options;
  options.calls = *NumberSet::Parse("0");
  ASSERT_TRUE(WriteDump(trace.get(), options, &out).ok());
  EXPECT_EQ(out.str(), "      0  torch.add(0)  10 ns\n");
}

std::string StatsOf(const std::vector<StatsTrace>& traces, StatsFormat format) {
  StatsOptions options;
  options.grouping.by = StatsBy::kLine;
  options.format = format;
  std::ostringstream out;
  const absl::Status status = WriteStats(traces, options, &out);
  return status.ok() ? out.str() : status.ToString();
}

TEST(Stack, StatsByLine) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog");
  const auto trace = OpenLogs(folder + "/log.ttlog").value();
  EXPECT_EQ(StatsOf({{trace.get(), "a"}}, StatsFormat::kText),
            "5 calls of 2 APIs in 2 configs, self time 70 ns\n\n"
            "calls  calls %  APIs  configs   time  self time  self %  line\n"
            "    3   60.00%     2        2  30 ns      30 ns  42.86%  pkg/step.py:20 in Step.run\n"
            "    1   20.00%     1        1  10 ns      10 ns  14.29%  (no stack)\n"
            "    1   20.00%     1        1  50 ns      30 ns  42.86%  train.py:7 in <module>\n");
  const nlohmann::json json = nlohmann::json::parse(StatsOf({{trace.get(), "a"}}, StatsFormat::kJson));
  EXPECT_EQ(json["lines"][0]["file"], "/opt/x/site-packages/pkg/step.py");
  EXPECT_EQ(json["lines"][0]["line"], 20);
  EXPECT_EQ(json["lines"][0]["function"], "Step.run");
  EXPECT_EQ(json["lines"][0]["module"], "pkg.step");
  EXPECT_EQ(json["lines"][0]["calls"], 3);
  EXPECT_EQ(json["lines"][1]["file"], nullptr);
  EXPECT_THAT(
      StatsOf({{trace.get(), "a"}}, StatsFormat::kCsv),
      testing::StartsWith("file,line,function,module,calls,apis,configs,percent,time_ns,self_time_ns,self_percent,"
                          "raised\n/opt/x/site-packages/pkg/step.py,20,Step.run,pkg.step,3,2,2,60.0,30,30,42.8571,"
                          "0\n,,,,1,1,1,20.0,10,10,14.2857,0\n"));
}

TEST(Stack, StatsByLineSideBySide) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/a.ttlog");
  WriteLog(folder + "/b.ttlog");
  const auto a = OpenLogs(folder + "/a.ttlog").value();
  const auto b = OpenLogs(folder + "/b.ttlog").value();
  const nlohmann::json json = nlohmann::json::parse(StatsOf({{a.get(), "a"}, {b.get(), "b"}}, StatsFormat::kJson));
  ASSERT_EQ(json["lines"].size(), 3u);
  EXPECT_EQ(json["lines"][0]["calls"], 6);
  EXPECT_EQ(json["lines"][0]["traces"][1]["calls"], 3);
}

TEST(Stack, StatsByLineNeedStacks) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog", R"({"format":1})");
  const auto trace = OpenLogs(folder + "/log.ttlog").value();
  EXPECT_THAT(StatsOf({{trace.get(), "a"}}, StatsFormat::kText), HasSubstr("a has no stacks"));
}

TEST(Stack, RenderWritesThem) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog");
  const auto trace = OpenLogs(folder + "/log.ttlog").value();
  RenderOptions options;
  options.folder = folder + "/files";
  ASSERT_TRUE(Render(trace.get(), options).ok());
  EXPECT_EQ(ReadFile(folder + "/files/api_stacks.yaml"),
            "torch.add:\n"
            "  3stacks:\n"
            "  - - \"functional.py:300 in relu\"\n"
            "    - \"step.py:20 in run\"\n"
            "    - \"train.py:7 in <module>\"\n"
            "  - - \"step.py:20 in run\"\n"
            "    - \"train.py:7 in <module>\"\n"
            "torch.mul:\n"
            "  3stacks:\n"
            "  - - \"train.py:7 in <module>\"\n"
            "  - - \"functional.py:300 in relu\"\n"
            "    - \"step.py:20 in run\"\n"
            "    - \"train.py:7 in <module>\"\n");
}

TEST(Stack, RenderWithoutStacks) {
  const std::string folder = TestFolder();
  WriteLog(folder + "/log.ttlog", R"({"format":1,"levels":[1]})");
  const auto trace = OpenLogs(folder + "/log.ttlog").value();
  RenderOptions options;
  options.folder = folder + "/files";
  ASSERT_TRUE(Render(trace.get(), options).ok());
  EXPECT_TRUE(std::filesystem::exists(folder + "/files/api_trace.yaml"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/files/api_stacks.yaml"));
  options.formats = RenderFormats::Parse("stacks").value();
  EXPECT_THAT(std::string(Render(trace.get(), options).status().message()), HasSubstr("the trace has no stacks"));
}

}  // namespace
}  // namespace torchtrace
