// Arrays and schemas that are handed on: they share what another one describes, and keep it alive. As Arrow's
// specification demands, each array of a tree can be moved out of it and released on its own, on any thread.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_ARROW_SHARING_H_
#define TORCHTRACE_SERIALIZE_EXPORT_ARROW_SHARING_H_

#include <memory>

#include "serialize/export/arrow_c_data.h"

namespace torchtrace {

// An array with the buffers of `array`, which `owner` keeps.
void ShareArray(const ArrowArray& array, const std::shared_ptr<const void>& owner, ArrowArray* out);

// A copy that owns all of its texts.
void CopySchema(const ArrowSchema& schema, ArrowSchema* out);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_ARROW_SHARING_H_
