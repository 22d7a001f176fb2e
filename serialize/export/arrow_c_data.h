// The Arrow C data and stream interfaces: how column batches pass between libraries that
// share no C++. The structures and their include guards are copied from the specification
// (https://arrow.apache.org/docs/format/CStreamInterface.html), which is meant to be copied.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_ARROW_C_DATA_H_
#define TORCHTRACE_SERIALIZE_EXPORT_ARROW_C_DATA_H_

#include <stdint.h>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

}  // extern "C"

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

extern "C" {

struct ArrowArrayStream {
  // Returns 0 or an errno code.
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  // At the end of the stream, `out` is a released array.
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

}  // extern "C"

#endif  // ARROW_C_STREAM_INTERFACE

#endif  // TORCHTRACE_SERIALIZE_EXPORT_ARROW_C_DATA_H_
