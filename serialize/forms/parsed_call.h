// A call as an item of a list tells it: what parsers of the forms give.

#ifndef TORCHTRACE_SERIALIZE_FORMS_PARSED_CALL_H_
#define TORCHTRACE_SERIALIZE_FORMS_PARSED_CALL_H_

#include <cstdint>
#include <string>

namespace torchtrace {

// More calls of one configuration than any program makes; sums of such counts don't overflow.
inline constexpr uint64_t kMaxCount = uint64_t{1} << 48;

struct ParsedCall {
  std::string identity;  // config.h
  std::string facets;
  uint64_t count = 1;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_FORMS_PARSED_CALL_H_
