// Replays log_reader_fuzzer's corpus, and a few thousand random variations of it
// (the same ones each time).
//
// The corpus started with sample logs; to add them again:
//   TORCHTRACE_BLESS=$PWD/testdata/fuzz/log bazel run //serialize:log_reader_fuzz_test

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "serialize/base/bytes.h"
#include "serialize/log/log_format.h"
#include "serialize/testing/log_samples.h"
#include "serialize/testing/value_samples.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

void RunOne(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// A log in the fuzzer's short form.
std::string Shorten(const std::string& log) {
  uint32_t version = 0;
  std::memcpy(&version, &log[offsetof(Superblock, version)], sizeof version);
  std::string input = version == kManyProcessesVersion ? "\2" : "\1";
  for (size_t at = kPageBytes; at < log.size();) {
    FrameHeader header;
    std::memcpy(&header, &log[at], sizeof header);
    input.push_back(static_cast<char>(header.type + 4 * header.process));
    input.push_back(header.closed == kFrameClosed ? 1 : 0);
    AppendString(std::string_view(log).substr(at + sizeof header, header.committed_bytes), &input);
    at += header.capacity_bytes;
  }
  return input;
}

TEST(LogReaderFuzzTest, Corpus) {
  const std::string folder = TestFolder();
  WriteSampleLog(folder + "/sample", SampleEnd::kInOrder);
  WriteSampleLog(folder + "/killed", SampleEnd::kKilled);
  fs::copy_file("testdata/logs/v2/merged.ttlog", folder + "/merged");
  WriteNumbersLog(folder + "/numbers");
  WriteMemoryLog(folder + "/memory");
  WriteStepsLog(folder + "/steps");
  WriteLaterLog(folder + "/later");
  std::vector<std::string> inputs = {""};
  for (const char* const name : {"sample", "killed", "merged", "numbers", "later", "memory", "steps"}) {
    const std::string log = ReadFile(folder + "/" + name);
    inputs.push_back(std::string(1, '\0') + log);
    inputs.push_back(Shorten(log));
    if (const char* const bless = std::getenv("TORCHTRACE_BLESS"))
      WriteFile(std::string(bless) + "/" + name, inputs.back());
  }
  for (std::string& input : ReadFuzzCorpus("log")) inputs.push_back(std::move(input));
  EXPECT_GE(inputs.size(), 10u);

  std::mt19937 random(1);  // always the same numbers
  for (const std::string& input : inputs) {
    RunOne(input);
    for (int i = 0; i < 500; ++i) RunOne(MakeMutant(input, &random));
  }
}

}  // namespace
}  // namespace torchtrace
