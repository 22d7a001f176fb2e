// How long each API took, call by call: `torchtrace export timing` and torchtrace.TorchWrapper. JSON is
//
//   {"torch.add": {"TotalTime(ms)": 0.027,
//   "1": {"detailedAPIName": "torch.add", "StartTimestamp": 1732451234567890123, "CostTime(ms)": 0.027,
//         "Arguments": "((Tensor([2, 3], \"float32\"), 1), {\"alpha\": 2})"}}}
//
// with a line per call; CSV has the same columns per call. APIs come in the order of their first calls, the calls of
// each in the order of their entries, numbered from 1. docs/EXPORT.md describes each member.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_TIMING_EXPORT_H_
#define TORCHTRACE_SERIALIZE_EXPORT_TIMING_EXPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialize/export/exporter.h"
#include "serialize/export/exports.h"
#include "serialize/export/file_series.h"
#include "serialize/model/config.h"

namespace torchtrace {

enum class TimingFormat : uint8_t { kJson, kCsv };

struct TimingOptions {
  TimingFormat format = TimingFormat::kJson;
  // Holds calls until their API is written: a folder with room for 32 bytes per call.
  std::string temporary_folder = "/tmp";
  // Processes whose facts have the same key (FileNames::Key) share files; null: all do.
  std::function<std::string(const FileFacts&)> file_key = nullptr;
};

// Writes the calls of all traces at Finish; begins the first file. Memory grows with configs, APIs and open calls.
//
// A call that was recorded at two levels counts once: a call directly within a call of the same API at another level
// is left out.
std::unique_ptr<CallSink> MakeTimingSink(TextSeries* out, const TimingOptions& options);

struct TimingFiles {
  std::string folder;
  FileNames names;
  FileSeries::Options series;
};
// The same into files of a folder; processes with the same file name share a file. Returns the files' paths.
absl::StatusOr<std::vector<std::string>> ExportTimingFiles(const std::vector<LabelledTrace>& traces,
                                                           const CallSelection& selection, TimingOptions options,
                                                           const TimingFiles& files);

// The name by which calls are summed, and the detailed one: `aten::add` and `aten::add.Tensor`, `Linear` and
// `Linear@encoder.0`, `__main__.train` and `__main__.train@train.py:12`. Otherwise the two are equal.
std::string TimingApi(const Config& config);
std::string DetailedApiName(const Config& config);

// `((arg1, ...), {"kw": value, ...})`, values in the text form.
std::string TimingArguments(const Config& config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_TIMING_EXPORT_H_
