// Finds and loads the module that writes Parquet, and the pyarrow whose libraries it
// uses. Modules lie in
//
//   <the executable's folder>/../lib/torchtrace_parquet-arrow2600.so
//
// or in $TORCHTRACE_PARQUET_DIR, each built for one version of libarrow.so and
// libparquet.so (2600: that of pyarrow 26.0). These come from an environment's pyarrow:
// that of `python` when it is not empty, else the first of $TORCHTRACE_PYTHON,
// $VIRTUAL_ENV, $CONDA_PREFIX, ./.venv and python3 on PATH that has one, and else the
// one that the module was built with.

#ifndef TORCHTRACE_SERIALIZE_EXPORT_PARQUET_MODULE_LOADER_H_
#define TORCHTRACE_SERIALIZE_EXPORT_PARQUET_MODULE_LOADER_H_

#include <string>

#include "absl/status/statusor.h"
#include "serialize/export/parquet_module.h"

namespace torchtrace {

// `python` is a python or the folder of an environment. Loads for the rest of the
// process's life. NotFound says what is missing, and how to install or build it.
absl::StatusOr<const ParquetModule*> LoadParquetModule(const std::string& python);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_EXPORT_PARQUET_MODULE_LOADER_H_
