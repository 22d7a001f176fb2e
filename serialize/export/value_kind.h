// What a value is, in the words of "can't be written: a storage": for formats that
// have no notation for it.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_VALUE_KIND_H_
#define TORCHTRACE_SERIALIZE_EXPORT_VALUE_KIND_H_

#include <string_view>

#include "serialize/model/value.h"

namespace torchtrace {

// With its article; "a value" for what every format can write.
std::string_view ValueKind(ValueTag tag);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_VALUE_KIND_H_
