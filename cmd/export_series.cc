#include "cmd/export_series.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cmd/cli/options.h"
#include "cmd/cli/output.h"
#include "serialize/export/file_series.h"
#include "serialize/export/timing_export.h"

namespace torchtrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJson = "json";
constexpr std::string_view kCsv = "csv";

int64_t NowNs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// "json" or "csv"; else empty.
std::string SuffixOf(const std::string& output) {
  const std::string suffix = absl::AsciiStrToLower(fs::path(output).extension().string());
  return suffix.size() > 1 && (suffix.substr(1) == kJson || suffix.substr(1) == kCsv) ? suffix.substr(1) : "";
}

// Whether it is standard output, a device or a pipe, and so has no room for several files.
bool IsStream(const std::string& output) {
  std::error_code error;
  return output.empty() || output == "-" ||
         (fs::exists(output, error) && !fs::is_regular_file(output, error) && !fs::is_directory(output, error));
}

// Whether the output is files in a folder of that name, and not a file of that name.
bool IsFolder(const std::string& output) {
  std::error_code error;
  return fs::is_directory(output, error) || SuffixOf(output).empty();
}

// The error of --format with another format's name.
absl::Status ForTimingAlone(const std::string& format) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--format is only for timing; name a format before the traces: torchtrace export ", format, " TRACE"));
}

class StreamSeries final : public TextSeries {
 public:
  explicit StreamSeries(std::ostream* out) : out_(out) {}
  absl::Status Begin(const FileFacts&) override { return absl::OkStatus(); }
  void Append(std::string_view text) override { out_->write(text.data(), static_cast<std::streamsize>(text.size())); }

 private:
  std::ostream* const out_;
};

int WriteStream(const WritesSeries& series, const std::vector<LabelledTrace>& traces, const CallSelection& selection,
                const TimingOptions& options, const std::string& output) {
  const absl::StatusOr<std::unique_ptr<Output>> out = Output::Open(output);
  if (!out.ok()) return Fail(kExitTrouble, out.status());
  StreamSeries text(&(*out)->stream());
  const std::unique_ptr<CallSink> sink = series.make(&text, options);
  absl::Status status = ExportTimeline(traces, selection, sink.get());
  if (status.ok()) status = sink->Finish();
  return (*out)->Finish(status);
}

}  // namespace

void SeriesOptions::AddTo(App* app) {
  app_ = app;
  app->add_option("--format", format_, "timing: json or csv (default: by FILE's suffix, else json)")
      ->option_text("FORMAT")
      ->check(Completed(
          [](const std::string& text) {
            if (text == kJson || text == kCsv) return std::string();
            return FindExporter(text).ok() ? std::string(ForTimingAlone(text).message())
                                           : absl::StrCat("expected json or csv, found '", text, "'");
          },
          [] { return std::vector<std::string>{std::string(kJson), std::string(kCsv)}; }));
  app->add_option("--max-file-size", max_file_size_,
                  "timing: begin a new file when one would be larger: KB, MB or GB (default: 128MB)")
      ->option_text("SIZE")
      ->check(Checked([](const std::string& text) { return ParseFileSize(text); }));
  app->add_option("--file-name-spec", file_name_spec_,
                  "timing: the names of the files in a folder: timestamp, datetime, serial, or a pattern as "
                  "'%Y-%m-%d_rank{rank}' (default: timestamp)")
      ->option_text("SPEC")
      ->check(Completed(Checked([](const std::string& text) { return FileNames::Parse(text, 0); }), FileNames::Specs));
}

absl::Status SeriesOptions::CheckFormat(const absl::Status& otherwise) const {
  return app_->at("--format").count() > 0 ? ForTimingAlone(format_) : otherwise;
}

absl::Status SeriesOptions::CheckUnused() const {
  if (absl::Status s = CheckFormat(absl::OkStatus()); !s.ok()) return s;
  for (const char* const option : {"--max-file-size", "--file-name-spec"}) {
    if (app_->at(option).count() > 0) return absl::InvalidArgumentError(absl::StrCat(option, " is only for timing"));
  }
  return absl::OkStatus();
}

std::vector<std::string> SeriesOptions::Write(const WritesSeries& series, const std::vector<LabelledTrace>& traces,
                                              const CallSelection& selection, const std::string& output, bool force,
                                              int* exit_code) const {
  const bool stream = IsStream(output);
  const bool folder = !stream && IsFolder(output);
  const auto fail = [exit_code](const auto& what) {
    *exit_code = Fail(kExitTrouble, what);
    return std::vector<std::string>();
  };
  if (!folder && app_->at("--file-name-spec").count() > 0) {
    return fail("--file-name-spec names the files in a folder: -o FOLDER");
  }
  if (stream && app_->at("--max-file-size").count() > 0) {
    return fail("--max-file-size is for files: -o FILE or -o FOLDER");
  }
  std::string format = format_;
  if (format.empty()) format = folder || SuffixOf(output) != kCsv ? kJson : kCsv;
  std::error_code error;
  if (!stream && !folder && !force && fs::exists(output, error)) {
    return fail(absl::StrCat(output, " exists; --force replaces it"));  // before anything is read
  }
  TimingOptions options = {.format = format == kCsv ? TimingFormat::kCsv : TimingFormat::kJson};
  if (stream) {
    const fs::path temporary = fs::temp_directory_path(error);
    if (!error) options.temporary_folder = temporary.string();
    *exit_code = WriteStream(series, traces, selection, options, output);
    return {};
  }
  const fs::path path = output;
  const fs::path parent = path.has_parent_path() ? path.parent_path() : ".";
  const TimingFiles files = {
      .folder = folder ? output : parent.string(),
      .names = folder ? *FileNames::Parse(file_name_spec_, NowNs()) : FileNames::Literal(path.stem().string()),
      .series = {.suffix = folder ? "." + format : path.extension().string(),
                 .max_bytes = *ParseFileSize(max_file_size_),
                 .force = force}};
  CleanUpOnSignals();
  const absl::StatusOr<std::vector<std::string>> written = ExportTimingFiles(traces, selection, options, files);
  if (!written.ok()) return fail(written.status());
  *exit_code = kExitOk;
  return *written;
}

}  // namespace torchtrace
