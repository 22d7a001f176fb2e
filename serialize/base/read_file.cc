#include "serialize/base/read_file.h"

#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "serialize/base/files.h"

namespace torchtrace {

absl::StatusOr<std::string> ReadWholeFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) return FileError(absl::StrCat("cannot read ", path), errno);
  return ReadWholeFile(file.get(), path);
}

absl::StatusOr<std::string> ReadWholeFile(std::FILE* file, const std::string& path) {
  std::string text;
  char block[1 << 16];
  for (size_t bytes; (bytes = std::fread(block, 1, sizeof block, file)) > 0;) {
    text.append(block, bytes);
    if (text.size() <= kMostFileBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is larger than ", kMostFileBytes >> 20, " MiB, the most that is read of such a file"));
  }
  if (std::ferror(file) != 0) return FileError(absl::StrCat("cannot read ", path), errno);
  return text;
}

}  // namespace torchtrace
