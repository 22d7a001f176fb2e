// The two halves of an export to Parquet. C++ reads the traces and offers their rows as
// Arrow C streams; Python, in the same process, pulls them into a file by pyarrow:
//
//   torchtrace             becomes `python -c parquet_writer.py LIBRARY VERB ...` (cmd/export_in_python.h)
//   parquet_writer.py      loads the library, which contains the same verb, and runs it with
//                          a function that writes rows
//   parquet_table.cc       calls the function for each row group
//
// Only plain C and the Arrow C stream interface cross between them. One table at a time on each thread.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PARQUET_TABLE_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PARQUET_TABLE_H_

#include <stddef.h>

struct ArrowArrayStream;

namespace torchtrace {

extern "C" {

// Python's function. Appends the rows as a row group. It owns the stream, and releases it before it returns. The first
// call, possibly without rows, begins the file; null ends it. `counters`: comma-separated names of the columns to
// encode as differences; the others get a dictionary. Returns 0, or another number after a call of
// torchtrace_export_failed.
typedef int (*ParquetRowsFunction)(struct ArrowArrayStream* rows, const char* counters);

// For Python's function: writes the file's next bytes. Returns 0, or another number on failure.
int torchtrace_export_write(const void* bytes, size_t size);
// For Python's function: sets the error message for the user.
void torchtrace_export_failed(const char* why);

}  // extern "C"

// For tables of this thread. Call it before making one.
void SetParquetRowsFunction(ParquetRowsFunction function);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PARQUET_TABLE_H_
