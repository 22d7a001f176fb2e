// Fuzzes the importers and the parser of the text form: whatever the bytes are,
// reading must succeed or fail with a one-line message, counting and reading must agree,
// and every configuration's text must read back as the same. The environment variable
// FUZZ names the target: an importer, or `text_parser`.
//
//   bazel build --config=fuzz //serialize/import:import_fuzz
//   FUZZ=yaml .build/fuzz-bin/serialize/import/import_fuzz NEW_FOLDER testdata/fuzz/yaml

#include "serialize/import/import_fuzzer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/forms/forms.h"
#include "serialize/import/imported_trace.h"
#include "serialize/import/importer.h"
#include "serialize/import/input_file.h"
#include "serialize/model/config.h"

namespace torchtrace {
namespace {

// Counts in a file can mean more calls than a test can wait for.
constexpr uint64_t kMaxRecords = 100'000;

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void CheckError(const absl::Status& status) {
  const std::string message(status.message());
  Require(!message.empty(), "a message");
  for (const char c : message) Require(static_cast<unsigned char>(c) >= 0x20, "a message of one line");
}

// Formatting and parsing a config must give the same text.
void CheckConfig(std::string_view identity) {
  const absl::StatusOr<Config> config = ParseConfig(identity);
  Require(config.ok(), "a config that can be read");
  const std::string text = FormatConfig(*config);
  const absl::StatusOr<Config> again = ParseConfigText(text);
  Require(again.ok(), "a config whose text can be parsed");
  Require(FormatConfig(*again) == text, "the same text again");
}

void ReadFile(const Importer& importer, const std::string& path, std::string_view bytes) {
  if (!bytes.empty()) importer.sniff({bytes.substr(0, kFileHeadBytes), "file"});
  absl::StatusOr<std::unique_ptr<InputFile>> file = InputFile::Open(path);
  Require(file.ok(), "a file");
  absl::StatusOr<std::unique_ptr<CallSource>> source = importer.open(*std::move(file));
  if (!source.ok()) return CheckError(source.status());
  ImportedTrace trace("file", bytes.size(), *std::move(source));
  const absl::StatusOr<std::vector<uint64_t>> counts = trace.Count();
  if (!counts.ok()) CheckError(counts.status());
  if (counts.ok()) Require(counts->size() == trace.variant_count(), "a count for each variant");
  for (ConfigId config = 0; config < trace.config_count(); ++config) CheckConfig(trace.identity(config));
  for (VariantId variant = 0; variant < trace.variant_count(); ++variant) {
    Require(ParseFacets(trace.facets(variant)).ok(), "facets that can be read");
  }

  std::vector<uint64_t> seen(trace.variant_count());
  std::vector<bool> open;  // by call
  uint64_t records = 0;
  const absl::Status enough = absl::CancelledError("enough");
  const absl::Status status = trace.Read([&](const CallRecord& record) -> absl::Status {
    Require(record.process < trace.processes().size(), "a process");
    if (record.variant >= seen.size()) seen.resize(trace.variant_count());
    Require(record.variant < seen.size() && record.config == trace.config_of(record.variant), "a variant");
    if (record.kind == CallRecord::kEnter) {
      Require(record.call == open.size(), "calls in order");
      Require(record.parent == kNoCall || open.at(record.parent), "a parent that is open");
      ++seen[record.variant];
      open.push_back(true);
    } else {
      Require(open.at(record.call) && record.duration_ns >= 0, "an end of an open call");
      open[record.call] = false;
    }
    return ++records < kMaxRecords ? absl::OkStatus() : enough;
  });
  if (status == enough) return;
  Require(status.ok() == counts.ok(), "reading and counting that agree");
  if (!status.ok()) return;
  Require(seen == *counts, "the same counts");
  uint64_t calls = 0;
  for (const ProcessInfo& process : trace.processes()) {
    calls += process.calls;
    for (const ThreadInfo& thread : process.threads) Require(thread.calls <= process.calls, "calls of a thread");
  }
  Require(calls == open.size(), "the processes' calls");
}

void FuzzParser(std::string_view text) {
  const auto check = [](const absl::Status& status, const Config& config) {
    if (status.ok()) return CheckConfig(EncodeConfig(config));
    CheckError(status);
    Require(status.message().find(": expected ") != std::string::npos, "what was expected");
  };
  const absl::StatusOr<Config> parsed = ParseConfigText(text);
  check(parsed.status(), parsed.ok() ? *parsed : Config());
  Config config;
  config.api = "aten::f";
  config.level = GuessLevel(config.api);
  const absl::Status status = ParseTorchBenchInputs(text, &config);
  check(status, config);
}

}  // namespace

void FuzzOne(std::string_view name, const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (name == "text_parser") return FuzzParser(bytes);
  const Importer* const importer = FindImporter(name);
  Require(importer != nullptr, "FUZZ=text_parser, or the name of an importer");
  static const int file = memfd_create("file", MFD_CLOEXEC);
  Require(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size),
          "a file in memory");
  ReadFile(*importer, absl::StrCat("/proc/self/fd/", file), bytes);
}

}  // namespace torchtrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const name = std::getenv("FUZZ");
  torchtrace::FuzzOne(name == nullptr ? "" : name, data, size);
  return 0;
}
