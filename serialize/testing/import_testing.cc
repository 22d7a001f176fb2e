#include "serialize/testing/import_testing.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialize/forms/text_form.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

std::string ScanOnce(CallSource* source) {
  std::string lines;
  std::vector<std::vector<uint32_t>> depths;
  const absl::Status status = source->Scan([&](const ImportedCall& call) {
    const absl::StatusOr<Config> config = ParseConfig(call.identity);
    EXPECT_TRUE(config.ok()) << config.status();
    if (!config.ok()) return config.status();
    EXPECT_EQ(EncodeConfig(*config), call.identity);
    EXPECT_EQ(config->level, 2);
    EXPECT_LE(call.start_ns, call.end_ns);
    absl::StrAppend(&lines, std::string(2 * call.depth, ' '), FormatConfig(*config));
    if (call.process != 0 || call.thread != 0) absl::StrAppend(&lines, " @", call.process, ".", call.thread);
    if (call.start_ns != kUnknownTime) absl::StrAppend(&lines, " [", call.start_ns, ", ", call.end_ns, "]");
    absl::StrAppend(&lines, "\n");
    return absl::OkStatus();
  });
  if (!status.ok()) absl::StrAppend(&lines, "error: ", std::string(status.message()), "\n");
  EXPECT_FALSE(source->processes().empty());
  return lines;
}

}  // namespace

std::string CallLines(CallSource* source) {
  const std::string lines = ScanOnce(source);
  EXPECT_EQ(ScanOnce(source), lines);
  return lines;
}

std::string AllLines(CallSource* source) {
  std::string lines = CallLines(source);
  for (const ImportedProcess& process : source->processes()) {
    absl::StrAppend(&lines, "process ", process.metadata.dump());
    for (const std::string& name : process.thread_names) absl::StrAppend(&lines, " \"", name, "\"");
    absl::StrAppend(&lines, "\n");
  }
  for (const std::string& note : source->notes()) absl::StrAppend(&lines, "note: ", note, "\n");
  return lines;
}

JsonFile MemoryFile(std::string_view bytes) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return {"file.json", [copy](uint64_t offset, void* to, size_t size) -> size_t {
            if (offset >= copy->size()) return 0;
            const size_t count = std::min<size_t>(size, copy->size() - offset);
            std::memcpy(to, copy->data() + offset, count);
            return count;
          }};
}

std::string ReadTestFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void ExpectGolden(const std::string& lines, const std::string& path) {
  if (const char* const workspace = std::getenv("TORCHTRACE_BLESS")) {
    std::ofstream(std::string(workspace) + "/" + path, std::ios::binary) << lines;
  } else {
    EXPECT_EQ(lines, ReadTestFile(path)) << path;
  }
}

}  // namespace torchtrace
