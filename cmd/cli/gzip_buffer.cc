#include "cmd/cli/gzip_buffer.h"

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string_view>

namespace torchtrace {
namespace {

constexpr size_t kPackedBytes = 64 << 10;
constexpr std::streamsize kMostAtOnce = 1 << 30;  // zlib counts in 32 bits
constexpr int kGzipFrame = 15 + 16;               // the largest window
constexpr int kMemory = 8;                        // zlib's default

}  // namespace

struct GzipBuffer::Stream {
  z_stream z = {};
  unsigned char packed[kPackedBytes];
};

GzipBuffer::GzipBuffer(OutputFile* file) : file_(file), stream_(std::make_unique<Stream>()) {
  // It fails only if memory runs out.
  if (deflateInit2(&stream_->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipFrame, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

GzipBuffer::~GzipBuffer() { deflateEnd(&stream_->z); }

void GzipBuffer::Compress(int flush) {
  z_stream& z = stream_->z;
  do {
    z.next_out = stream_->packed;
    z.avail_out = kPackedBytes;
    deflate(&z, flush);
    file_->Append(std::string_view(reinterpret_cast<const char*>(stream_->packed), kPackedBytes - z.avail_out));
  } while (z.avail_out == 0);
}

void GzipBuffer::Finish() {
  stream_->z.avail_in = 0;
  Compress(Z_FINISH);
}

int GzipBuffer::overflow(int c) {
  if (c == traits_type::eof()) return 0;
  const char byte = static_cast<char>(c);
  return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
}

std::streamsize GzipBuffer::xsputn(const char* bytes, std::streamsize size) {
  z_stream& z = stream_->z;
  for (std::streamsize done = 0; done < size && file_->status().ok();) {
    const std::streamsize part = std::min(size - done, kMostAtOnce);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes + done));
    z.avail_in = static_cast<uInt>(part);
    Compress(Z_NO_FLUSH);
    done += part;
  }
  return file_->status().ok() ? size : 0;
}

}  // namespace torchtrace
