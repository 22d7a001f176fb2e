// The two halves of an export to Parquet. C++ reads the traces and offers their rows as
// Arrow C streams; Python, in the same process, pulls them into a file by pyarrow:
//
//   torchtrace             becomes `python -c parquet_writer.py LIBRARY VERB ...` (cmd/export_in_python.h)
//   parquet_writer.py      loads the library, which is torchtrace's verb once more, and runs
//                          that with a function that writes rows
//   parquet_table.cc       calls the function for each row group
//
// Only plain C and the Arrow C stream interface cross between them. One table at a time.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PARQUET_TABLE_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PARQUET_TABLE_H_

#include <stddef.h>

struct ArrowArrayStream;

namespace torchtrace {

extern "C" {

// Python's function. Appends the rows, which it takes over and has released when it returns,
// as a row group; the first ones, of which there may be none, begin the file, and null ends
// it. `counters`: the columns, separated by commas, that are encoded as differences, the
// others with a dictionary. Returns 0, or anything else after torchtrace_export_failed.
typedef int (*ParquetRowsFunction)(struct ArrowArrayStream* rows, const char* counters);

// For Python's function: the file's next bytes. 0, or anything else when they can't be written.
int torchtrace_export_write(const void* bytes, size_t size);
// The sentence that the user is told.
void torchtrace_export_failed(const char* why);

}  // extern "C"

// Before a table is made.
void SetParquetRowsFunction(ParquetRowsFunction function);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PARQUET_TABLE_H_
