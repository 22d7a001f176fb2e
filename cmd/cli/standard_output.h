// Standard output as verbs write to it: buffered, and with an account of how it
// failed. A reader that has gone away (`| head`) is no failure.

#ifndef TORCHTRACE_CMD_CLI_STANDARD_OUTPUT_H_
#define TORCHTRACE_CMD_CLI_STANDARD_OUTPUT_H_

#include <cstdint>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace torchtrace {

class StandardOutput : public std::ostream {
 public:
  enum Content : uint8_t {
    kText,         // becomes plain text (plain_text.h)
    kColoredText,  // the same, but colours stay
    kBinary,
  };
  // Writes to `fd`, which it doesn't own.
  explicit StandardOutput(Content content = kText, int fd = 1);

  // Flushes, and returns the exit code of a verb that ended with `status`: a
  // failed write outweighs it, but for a reader that has gone.
  int Finish(const absl::Status& status);

 private:
  class Buffer : public std::streambuf {
   public:
    Buffer(Content content, int fd) : content_(content), fd_(fd) { setp(bytes_, bytes_ + sizeof bytes_); }
    int error() const { return error_; }
    // Nothing more comes.
    void Finish();

   protected:
    int overflow(int c) override;
    int sync() override;

   private:
    void Write(std::string_view bytes);

    const Content content_;
    const int fd_;
    int error_ = 0;        // errno of the first failed write
    std::string waiting_;  // the beginning of a character
    char bytes_[1 << 16];
  };

  Buffer buffer_;
};

// Writes `text` and returns the exit code.
int WriteStandardOutput(const std::string& text, int failure_exit_code);

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_STANDARD_OUTPUT_H_
