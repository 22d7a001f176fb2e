// TorchBench's operator inputs (OperatorInputsMode), and BackendBench's variant:
//   Operator: aten.addmm.default
//   cnt: 48, ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})

#ifndef TORCHTRACE_SERIALIZE_IMPORT_TORCHBENCH_H_
#define TORCHTRACE_SERIALIZE_IMPORT_TORCHBENCH_H_

#include "serialize/import/importer.h"

namespace torchtrace {

extern const Importer kTorchBenchImporter;

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_IMPORT_TORCHBENCH_H_
