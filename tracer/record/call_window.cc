#include "tracer/record/call_window.h"

#include <cmath>

#include "tracer/record/clock.h"

namespace torchtrace {
namespace {

// SplitMix64: the same calls are chosen in each run.
uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

}  // namespace

CallWindow::CallWindow(const RecordingOptions& options)
    : skip_(options.skip),
      most_sightings_(options.first),
      most_calls_(options.max_calls),
      duration_ns_(options.duration_ns),
      sampled_(options.sample >= 1 ? UINT64_MAX : static_cast<uint64_t>(std::ldexp(options.sample, 64))) {}

bool CallWindow::Limits(const RecordingOptions& options) {
  return options.skip != 0 || options.first != 0 || options.max_calls != 0 || options.duration_ns != 0 ||
         options.sample < 1;
}

bool CallWindow::Admits(uint64_t sightings, uint64_t thread, uint64_t call) {
  if (over()) return false;
  if (skipped_.load(std::memory_order_relaxed) < skip_ && skipped_.fetch_add(1, std::memory_order_relaxed) < skip_)
    return false;
  if (duration_ns_ != 0) {
    const uint64_t now_ns = MonotonicNs();
    uint64_t end_ns = 0;
    if (!end_ns_.compare_exchange_strong(end_ns, now_ns + duration_ns_) && now_ns >= end_ns) {
      over_ = true;
      return false;
    }
  }
  if (most_sightings_ != 0 && sightings >= most_sightings_) return false;
  if (sampled_ != UINT64_MAX && Mix(Mix(thread) ^ call) >= sampled_) return false;
  if (most_calls_ != 0 && recorded_.fetch_add(1, std::memory_order_relaxed) >= most_calls_) {
    over_ = true;
    return false;
  }
  return true;
}

void CallWindow::Begin() {
  skipped_ = 0;
  recorded_ = 0;
  end_ns_ = 0;
  over_ = false;
}

}  // namespace torchtrace
