// TritonBench's operator inputs:
//   {"aten.add.Tensor": [{"count": 1, "inputs": "((T([8], f32), 1), {})"}], "metadata": {}}

#ifndef TORCHTRACE_SERIALIZE_IMPORT_TRITONBENCH_H_
#define TORCHTRACE_SERIALIZE_IMPORT_TRITONBENCH_H_

#include "serialize/import/importer.h"

namespace torchtrace {

extern const Importer kTritonBenchImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_TRITONBENCH_H_
