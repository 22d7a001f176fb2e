// The C interface of torchtrace_parquet-arrow<N>.so, the module that carries Arrow's
// C++ libraries, which the executable must not be linked with: they cost 80 ms to load.
// Only plain C and the Arrow C data interface cross it. One writer is for one thread.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PARQUET_MODULE_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PARQUET_MODULE_H_

#include <stddef.h>
#include <stdint.h>

struct ArrowArray;
struct ArrowSchema;

namespace torchtrace {

// CRITICAL: executable and module are built apart; whatever changes below is a new version.
inline constexpr uint32_t kParquetModuleVersion = 1;
inline constexpr char kParquetModuleEntry[] = "torchtrace_parquet_module";

extern "C" {

// Writes all bytes and returns 0, or anything else.
typedef int (*ParquetWriteFunction)(void* context, const void* bytes, size_t size);

// Functions that return int return 0, or else have put a message into `error`, which
// holds `error_bytes` and is always terminated.
struct ParquetModule {
  uint32_t version;
  const char* arrow_version;  // "26.0.1"

  // Null on an error. Takes over `schema`, which is a struct of the columns. Columns that
  // are named in `counters`, a list that ends with null, are encoded as differences, the
  // others with a dictionary.
  void* (*open)(struct ArrowSchema* schema, const char* const* counters, ParquetWriteFunction write, void* context,
                char* error, size_t error_bytes);
  // Writes `batch`, which it takes over and has released when it returns, as a row group.
  int (*add)(void* writer, struct ArrowArray* batch, char* error, size_t error_bytes);
  // Writes the footer. Only close() may follow.
  int (*finish)(void* writer, char* error, size_t error_bytes);
  void (*close)(void* writer);
};

// The type of the entry.
typedef const struct ParquetModule* (*ParquetModuleFunction)(void);

}  // extern "C"

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PARQUET_MODULE_H_
