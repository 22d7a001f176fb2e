// Measures the cost of recording a call's entry and end, without describing it.
//   bazel run -c opt //tracer/record:recorder_benchmark

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "serialize/model/config.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

struct Call {
  std::string config;
  uint32_t identity_bytes;
};

// Calls whose configurations have about `bytes` bytes.
std::vector<Call> Calls(int64_t count, int64_t bytes) {
  std::vector<Call> calls;
  for (int64_t i = 0; i < count; ++i) {
    Config config;
    config.level = 2;
    config.api = absl::StrCat("aten::operator_number_", i);
    std::string identity = EncodeConfig(config);
    if (identity.size() < static_cast<size_t>(bytes)) identity.resize(static_cast<size_t>(bytes), 'x');
    const auto identity_bytes = static_cast<uint32_t>(identity.size());
    identity.push_back('\0');  // no facets
    calls.push_back({std::move(identity), identity_bytes});
  }
  return calls;
}

void BM_EnterAndLeave(benchmark::State& state) {
  std::string folder = std::filesystem::temp_directory_path().string() + "/recorder_benchmark_XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) return state.SkipWithError("no folder");
  RecorderOptions options;
  options.log_folder = folder;
  options.recording.quiet = true;
  if (!Recorder::Start(std::move(options)).ok()) return state.SkipWithError("no log");
  const std::vector<Call> calls = Calls(state.range(0), state.range(1));
  ThreadRecorder* const thread = Recorder::Get()->ThisThread();
  size_t next = 0;
  for (auto _ : state) {
    const Call& call = calls[next];
    if (++next == calls.size()) next = 0;
    if (thread->Enter(call.config, call.identity_bytes)) thread->Leave();
  }
  Recorder::Get()->Finish({});
  std::filesystem::remove_all(folder);
}
BENCHMARK(BM_EnterAndLeave)->ArgNames({"configs", "bytes"})->ArgsProduct({{1, 100, 2000}, {40, 100, 200}});

}  // namespace
}  // namespace torchtrace
