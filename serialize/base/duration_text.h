// Durations for people: three digits and a unit, `812 ns`, `12.3 us`, `4.56 s`.

#ifndef TORCHTRACE_SERIALIZE_BASE_DURATION_TEXT_H_
#define TORCHTRACE_SERIALIZE_BASE_DURATION_TEXT_H_

#include <cstdint>
#include <string>

namespace torchtrace {

std::string FormatDuration(int64_t ns);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_DURATION_TEXT_H_
