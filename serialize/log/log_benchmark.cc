// How fast logs are read: events per second, on one core, without the disk.
//   bazel run -c opt //serialize:log_benchmark
//
// An event is an enter or a leave. The log is like that of a training step:
// 300 configs, calls with one nested call, varying times.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "serialize/log/call_writer.h"
#include "serialize/log/log_format.h"
#include "serialize/log/log_trace.h"
#include "serialize/log/log_writer.h"
#include "serialize/trace/trace.h"

namespace torchtrace {
namespace {

constexpr uint64_t kEvents = 20'000'000;
constexpr uint32_t kConfigs = 300;
constexpr uint32_t kFramePayloadBytes = (4 << 20) - sizeof(FrameHeader);

struct Thread {
  CallWriter writer;
  uint64_t calls = 0;
  std::vector<int64_t> definitions;
};

void WriteLog(const std::string& path, uint64_t thread_count) {
  const std::unique_ptr<LogWriter> log = LogWriter::Create(path).value();
  std::vector<std::string> identities;
  for (uint32_t i = 0; i < kConfigs; ++i) {
    identities.push_back("\2");
    AppendString(absl::StrCat("aten::operator_number_", i), &identities.back());
    identities.back() += std::string(60, 'x');  // arguments, which nothing parses here
  }
  std::vector<Thread> threads(thread_count);
  uint64_t time = 1'000'000;
  uint64_t number = 12345;
  for (uint64_t events = 0; events < kEvents; events += 4) {
    const uint64_t index = events / 64 % thread_count;
    Thread& thread = threads[index];
    if (!thread.writer.open() || !thread.writer.Fits(1000)) {
      if (thread.writer.open()) LogWriter::Close(thread.writer.frame(), thread.writer.calls());
      thread.writer = CallWriter(log->Reserve(FrameType::kCalls, kFramePayloadBytes).value());
      thread.writer.Thread(index, 100 + index, time, thread.calls, 0, "python");
      thread.definitions.assign(kConfigs, -1);
    }
    for (int depth = 0; depth < 2; ++depth) {
      number = number * 6364136223846793005 + 1442695040888963407;
      const uint64_t config = (number >> 33) % kConfigs;
      int64_t& definition = thread.definitions[config];
      if (definition < 0) definition = static_cast<int64_t>(thread.writer.Define(identities[config], ""));
      thread.writer.Enter(static_cast<uint64_t>(definition), time += 50 + (number >> 56));
      ++thread.calls;
    }
    thread.writer.Leave(time += 300 + (number >> 54));
    thread.writer.Leave(time += 20 + (number >> 59));
  }
  for (Thread& thread : threads) LogWriter::Close(thread.writer.frame(), thread.writer.calls());
}

// The log of `threads` threads; written once.
const std::string& LogOf(uint64_t threads) {
  static auto* const paths = new std::map<uint64_t, std::string>;
  std::string& path = (*paths)[threads];
  if (path.empty()) {
    path = absl::StrCat(std::filesystem::temp_directory_path().string(), "/log_benchmark-", getpid(), "-", threads,
                        ".ttlog");
    WriteLog(path, threads);
    std::atexit([] {
      for (const auto& [count, log] : *paths) unlink(log.c_str());
    });
  }
  return path;
}

void BM_Count(benchmark::State& state) {
  const std::string& path = LogOf(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(OpenLogs(path).value()->Count().value());
  state.SetItemsProcessed(static_cast<int64_t>(kEvents) * state.iterations());
}
BENCHMARK(BM_Count)->ArgName("threads")->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);

// Includes counting, which Read does first.
void BM_Read(benchmark::State& state) {
  const std::string& path = LogOf(static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) {
    int64_t sum = 0;
    const auto trace = OpenLogs(path).value();
    trace
        ->Read([&](const CallRecord& record) {
          sum += record.duration_ns;
          return absl::OkStatus();
        })
        .IgnoreError();
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(static_cast<int64_t>(kEvents) * state.iterations());
}
BENCHMARK(BM_Read)->ArgName("threads")->Arg(1)->Arg(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace torchtrace
