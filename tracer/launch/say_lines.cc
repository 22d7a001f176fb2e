#include "tracer/launch/say_lines.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "serialize/base/plain_text.h"
#include "tracer/record/standard_error.h"
#include "tracer/record/write_without_signal.h"

namespace torchtrace {
namespace {

const StandardErrorWatch g_standard_error;

}  // namespace

void SayLines(const std::string& text) {
  if (!g_standard_error.IsTheSame()) return;
  std::string plain;
  AppendPlainText(text, {}, &plain);
  std::string lines = absl::StrCat("torchtrace: ", absl::StrReplaceAll(plain, {{"\n", "\ntorchtrace: "}}), "\n");
  for (size_t at = 0; at < lines.size();) {
    const iovec rest = {lines.data() + at, lines.size() - at};
    const ssize_t written = WriteWithoutSignal(STDERR_FILENO, &rest, 1);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

}  // namespace torchtrace
