#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialize/import/input_file.h"

namespace torchtrace {
namespace {

constexpr size_t kGzipBlockBytes = 64 << 10;
constexpr unsigned char kMagic[] = {0x1f, 0x8b, 8};
constexpr int kGzipWindow = 15 + 16;  // the largest, in gzip's frame

}  // namespace

struct GzipFile::Stream {
  z_stream z = {};
  std::vector<unsigned char> block = std::vector<unsigned char>(kGzipBlockBytes);
  bool in_member = true;  // a gzip file may have several members, one after the other
};

bool GzipFile::IsGzip(const LogFile& file) {
  unsigned char head[sizeof kMagic];
  return file.ReadAt(0, head, sizeof head) == sizeof head && std::memcmp(head, kMagic, sizeof head) == 0;
}

GzipFile::GzipFile(const LogFile* file) : file_(file), stream_(std::make_unique<Stream>()) {
  // It fails only if memory runs out.
  if (inflateInit2(&stream_->z, kGzipWindow) != Z_OK) Fail("can't be unpacked");
}

GzipFile::~GzipFile() { inflateEnd(&stream_->z); }

void GzipFile::Rewind() {
  inflateReset(&stream_->z);
  stream_->z.avail_in = 0;
  stream_->in_member = true;
  packed_offset_ = offset_ = 0;
  at_end_ = false;
  status_ = absl::OkStatus();
}

void GzipFile::Fail(const char* what) {
  at_end_ = true;
  status_ = absl::DataLossError(absl::StrCat(file_->path(), " is compressed by gzip and ", what, ", at byte ",
                                             packed_offset_ - stream_->z.avail_in));
}

bool GzipFile::Refill() {
  z_stream& z = stream_->z;
  const size_t read = file_->ReadAt(packed_offset_, stream_->block.data(), stream_->block.size());
  packed_offset_ += read;
  z.next_in = stream_->block.data();
  z.avail_in = static_cast<uInt>(read);
  return read > 0;
}

size_t GzipFile::Read(void* to, size_t bytes) {
  z_stream& z = stream_->z;
  auto* out = static_cast<unsigned char*>(to);
  size_t done = 0;
  while (done < bytes && !at_end_) {
    if (z.avail_in == 0 && !Refill()) {
      if (stream_->in_member) Fail("cut");
      at_end_ = true;
      break;
    }
    if (!stream_->in_member) {
      // Like gunzip, treat anything else after the last member as padding.
      if (*z.next_in != kMagic[0]) {
        at_end_ = true;
        break;
      }
      inflateReset(&z);
      stream_->in_member = true;
    }
    z.next_out = out + done;
    z.avail_out = static_cast<uInt>(std::min<size_t>(bytes - done, 1 << 30));
    const uInt before = z.avail_out;
    const int result = inflate(&z, Z_NO_FLUSH);
    done += before - z.avail_out;
    if (result == Z_STREAM_END) {
      stream_->in_member = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      Fail("damaged");
    }
  }
  offset_ += done;
  return done;
}

size_t GzipFile::ReadAt(uint64_t offset, void* to, size_t bytes) {
  if (offset < offset_) Rewind();
  std::vector<char> skipped;
  while (offset_ < offset && !at_end_) {
    skipped.resize(kGzipBlockBytes);
    Read(skipped.data(), static_cast<size_t>(std::min<uint64_t>(offset - offset_, skipped.size())));
  }
  return offset_ < offset ? 0 : Read(to, bytes);
}

}  // namespace torchtrace
