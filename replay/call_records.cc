#include <errno.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "replay/replay.h"
#include "serialize/base/files.h"

namespace torchtrace {
namespace {

bool Write(std::string_view text, std::FILE* file) {
  const uint64_t size = text.size();
  return std::fwrite(&size, sizeof size, 1, file) == 1 && std::fwrite(text.data(), 1, size, file) == size;
}

bool Read(std::FILE* file, std::string* text) {
  uint64_t size = 0;
  if (std::fread(&size, sizeof size, 1, file) != 1) return false;
  text->resize(size);
  return std::fread(text->data(), 1, size, file) == size;
}

}  // namespace

CallRecords::~CallRecords() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::StatusOr<uint64_t> CallRecords::Add(std::string_view notes, std::string_view result) {
  if (notes.empty() && result.empty()) return 0;
  if (file_ == nullptr) file_ = OpenNamelessFile();
  if (file_ == nullptr) return FileError("cannot open a temporary file", errno);
  const long at = std::ftell(file_);
  if (at < 0 || !Write(notes, file_) || !Write(result, file_)) {
    return FileError("cannot keep what a call had beside its config in a temporary file", errno);
  }
  return static_cast<uint64_t>(at) + 1;
}

absl::Status CallRecords::Get(uint64_t number, std::string* notes, std::string* result) const {
  if (std::fseek(file_, static_cast<long>(number - 1), SEEK_SET) != 0 || !Read(file_, notes) || !Read(file_, result)) {
    return FileError("cannot read back what a call had beside its config", errno);
  }
  return absl::OkStatus();
}

absl::Status CallRecords::Clear() {
  if (file_ == nullptr) return absl::OkStatus();
  std::rewind(file_);
  if (ftruncate(fileno(file_), 0) != 0) return FileError("cannot empty a temporary file", errno);
  return absl::OkStatus();
}

}  // namespace torchtrace
