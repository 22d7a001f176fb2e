#include "serialize/base/new_file.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>

#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace torchtrace {
namespace {

constexpr size_t kRandomLetters = 12;  // 60 bits

std::string RandomLetters() {
  constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz234567";
  uint8_t bytes[kRandomLetters] = {};
  // As few bytes as these are given at once, once the machine has started.
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) bytes[0] = 0;
  std::string letters;
  for (const uint8_t byte : bytes) letters += kLetters[byte % 32];
  return letters;
}

}  // namespace

std::string TemporaryName(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::string shown = path.substr(name, NAME_MAX - kRandomLetters - sizeof "...tmp");
  return absl::StrCat(path.substr(0, name), ".", shown, ".", RandomLetters(), ".tmp");
}

int CreateNewFile(const std::string& path, mode_t mode) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

}  // namespace torchtrace
