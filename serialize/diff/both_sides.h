// Does the same for both traces of a diff, at the same time where a second
// thread can be had: the traces share nothing.

#ifndef TORCHTRACE_SERIALIZE_DIFF_BOTH_SIDES_H_
#define TORCHTRACE_SERIALIZE_DIFF_BOTH_SIDES_H_

#include <system_error>
#include <thread>

#include "absl/status/status.h"

namespace torchtrace {

// The functions return absl::Status. The first one's error is returned first.
template <typename A, typename B>
absl::Status DoBoth(const A& a, const B& b) {
  absl::Status b_status;
  std::thread thread;
  try {
    thread = std::thread([&] { b_status = b(); });
  } catch (const std::system_error&) {
    // None to be had: one after the other.
  }
  const absl::Status a_status = a();
  if (thread.joinable()) {
    thread.join();
  } else {
    b_status = b();
  }
  return a_status.ok() ? b_status : a_status;
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_BOTH_SIDES_H_
