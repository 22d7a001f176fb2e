#include "serialize/log/call_counts.h"

#include <cstring>
#include <new>

namespace torchtrace {
namespace {

// More than any program makes; sums of damaged counts don't overflow.
constexpr uint64_t kMostCalls = uint64_t{1} << 48;

uint64_t Padded(uint64_t bytes) {
  constexpr uint64_t kAlignment = alignof(CallCount);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

uint64_t CountWriter::Written::calls() const {
  uint64_t sum = 0;
  VisitCounts({frame.payload(), bytes}, [&sum](std::string_view, std::string_view, uint64_t calls) { sum += calls; });
  return sum;
}

CountWriter::~CountWriter() {
  for (const Written& written : frames_) LogWriter::Close(written.frame, written.calls());
}

uint64_t CountWriter::BytesOf(std::string_view config) { return sizeof(CountHeader) + Padded(config.size()); }

bool CountWriter::Fits(std::string_view config) const {
  return !frames_.empty() && frames_.back().frame.payload_bytes() - frames_.back().bytes >= BytesOf(config);
}

void CountWriter::Continue(Frame frame) { frames_.push_back({frame, 0}); }

CallCount* CountWriter::Add(std::string_view config, uint32_t identity_bytes, uint64_t calls,
                            std::string_view* stored) {
  Written& written = frames_.back();
  char* const at = written.frame.payload() + written.bytes;
  const CountHeader header = {calls, identity_bytes, static_cast<uint32_t>(config.size()) - identity_bytes};
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, config.data(), config.size());
  *stored = {at + sizeof header, config.size()};
  written.bytes += static_cast<uint32_t>(BytesOf(config));
  std::atomic_ref<uint32_t>(written.frame.header->committed_bytes).store(written.bytes, std::memory_order_release);
  return std::launder(reinterpret_cast<CallCount*>(at));
}

uint64_t CountWriter::calls() const {
  uint64_t sum = 0;
  for (const Written& written : frames_) sum += written.calls();
  return sum;
}

void AppendCount(std::string_view identity, std::string_view facets, uint64_t calls, std::string* payload) {
  const CountHeader header = {calls, static_cast<uint32_t>(identity.size()), static_cast<uint32_t>(facets.size())};
  payload->append(reinterpret_cast<const char*>(&header), sizeof header).append(identity).append(facets);
  payload->resize(Padded(payload->size()));
}

uint64_t VisitCounts(std::string_view payload, const CountVisitor& visit) {
  uint64_t at = 0;
  while (payload.size() - at >= sizeof(CountHeader)) {
    CountHeader header;
    std::memcpy(&header, payload.data() + at, sizeof header);
    const uint64_t bytes = sizeof header + Padded(uint64_t{header.identity_bytes} + header.facets_bytes);
    if (header.calls == 0 || header.calls > kMostCalls || bytes > payload.size() - at) break;
    const char* const identity = payload.data() + at + sizeof header;
    visit({identity, header.identity_bytes}, {identity + header.identity_bytes, header.facets_bytes}, header.calls);
    at += bytes;
  }
  return at;
}

}  // namespace torchtrace
