#include "cmd/cli/output.h"

#include <unistd.h>

#include <filesystem>
#include <streambuf>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cmd/cli/ending_signals.h"
#include "cmd/cli/exit_code.h"
#include "cmd/cli/message.h"
#include "cmd/cli/standard_output.h"
#include "serialize/base/output_file.h"

namespace torchtrace {
namespace {

class ToStandardOutput final : public Output {
 public:
  explicit ToStandardOutput(bool binary) : out_(binary ? StandardOutput::kBinary : StandardOutput::kText) {}

  std::ostream& stream() override { return out_; }
  bool is_file() const override { return false; }
  absl::Status Flush() override { return absl::OkStatus(); }
  int Finish(const absl::Status& status) override { return out_.Finish(status); }

 private:
  StandardOutput out_;
};

class ToFile final : public Output {
 public:
  explicit ToFile(std::unique_ptr<OutputFile> file) : file_(std::move(file)), buffer_(file_.get()), stream_(&buffer_) {}

  std::ostream& stream() override { return stream_; }
  bool is_file() const override { return true; }
  absl::Status Flush() override { return file_->Finish(); }

  int Finish(const absl::Status& status) override {
    // A failed write is why the rest failed.
    if (!file_->status().ok()) return Fail(kExitTrouble, file_->status());
    if (!status.ok()) return Fail(kExitTrouble, status);
    const absl::Status committed = file_->Commit();
    return committed.ok() ? kExitOk : Fail(kExitTrouble, committed);
  }

 private:
  // The file has a buffer of its own.
  class Buffer : public std::streambuf {
   public:
    explicit Buffer(OutputFile* file) : file_(file) {}

   protected:
    int overflow(int c) override {
      if (c == traits_type::eof()) return 0;
      const char byte = static_cast<char>(c);
      return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
    }
    std::streamsize xsputn(const char* bytes, std::streamsize size) override {
      file_->Append(std::string_view(bytes, static_cast<size_t>(size)));
      return file_->status().ok() ? size : 0;
    }

   private:
    OutputFile* const file_;
  };

  const std::unique_ptr<OutputFile> file_;
  Buffer buffer_;
  std::ostream stream_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Output>> Output::Open(const std::string& path, const OutputOptions& options) {
  if (path.empty() || path == "-") {
    if (options.binary && isatty(STDOUT_FILENO) != 0) {
      return absl::InvalidArgumentError(
          "this format is binary, and standard output is a terminal; -o FILE writes a file");
    }
    return std::make_unique<ToStandardOutput>(options.binary);
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " is a folder; give a file"));
  }
  if (!options.force && std::filesystem::is_regular_file(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists; --force replaces it"));
  }
  CleanUpOnSignals();
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  return std::make_unique<ToFile>(*std::move(file));
}

}  // namespace torchtrace
