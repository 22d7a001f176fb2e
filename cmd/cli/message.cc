#include "cmd/cli/message.h"

#include "cmd/cli/progress.h"
#include "serialize/base/plain_text.h"
#include "tracer/launch/say_lines.h"

namespace torchtrace {

void Say(const std::string& text) {
  Progress::Hide();
  SayLines(PlainLine(text));
}

int Fail(int exit_code, const std::string& text) {
  Say(text);
  return exit_code;
}

int Fail(int exit_code, const absl::Status& status) { return Fail(exit_code, std::string(status.message())); }

}  // namespace torchtrace
