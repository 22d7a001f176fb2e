// Compresses what is written to a file.

#ifndef TORCHTRACE_CMD_CLI_GZIP_BUFFER_H_
#define TORCHTRACE_CMD_CLI_GZIP_BUFFER_H_

#include <ios>
#include <memory>
#include <streambuf>

#include "serialize/base/files.h"

namespace torchtrace {

// A stream buffer that writes to an OutputFile as one gzip member. The same bytes make the same file: it holds neither
// a name nor a time.
class GzipBuffer : public std::streambuf {
 public:
  explicit GzipBuffer(OutputFile* file);
  ~GzipBuffer() override;

  // Writes the rest, to be called once, after the last byte.
  void Finish();

 protected:
  int overflow(int c) override;
  std::streamsize xsputn(const char* bytes, std::streamsize size) override;

 private:
  struct Stream;

  void Compress(int flush);

  OutputFile* const file_;
  const std::unique_ptr<Stream> stream_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_CMD_CLI_GZIP_BUFFER_H_
