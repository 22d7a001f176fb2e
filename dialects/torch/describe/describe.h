// Describes tensors and torch's other objects as bytes.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_H_

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <cstdint>
#include <string_view>

#include "dialects/python/describe/object_names.h"  // IWYU pragma: export
#include "serialize/model/config_builder.h"
#include "tracer/record/call_key.h"

namespace torchtrace::torch_dialect {

// Describes a tensor by its metadata, passively: it calls nothing virtual that could reach Python, adds no guard, does
// not throw and doesn't need the GIL. `device` overrides the tensor's own when not empty (fake tensors). `inner`: whose
// numbers are the tensor's; null: its own.
void DescribeTensor(const at::Tensor& tensor, std::string_view subclass, ConfigBuilder* config,
                    std::string_view device = {}, const at::Tensor* inner = nullptr);

// The same to a call's key: fails for tensors that are not strided, and for those of which more than their fields
// matters (functorch, symbolic sizes, notes). `subclass`: a number of torch.Tensor's subclass, 0 for none.
void DescribeTensor(const at::Tensor& tensor, uint32_t subclass, CallKey* key);

// Describes a number that PyTorch wrapped into a 0-d tensor (`x + 1e-12`) as a number. False, and nothing appended, for
// any other tensor.
bool DescribeWrappedNumber(const at::Tensor& tensor, ConfigBuilder* config);
bool DescribeWrappedNumber(const at::Tensor& tensor, CallKey* key);

// "float32", "cuda:0", "strided", "channels_last"; "unknown" for what this version of torch has no name for.
std::string_view DtypeName(c10::ScalarType type);
std::string DeviceName(c10::Device device);
inline void DescribeDevice(c10::Device device, CallKey* key) {
  if (device.type() == c10::DeviceType::PrivateUse1) return key->Fail();  // programs may rename it
  key->Named(ValueTag::kDevice,
             uint64_t{static_cast<uint8_t>(device.type())} << 8 | static_cast<uint8_t>(device.index()));
}
std::string_view LayoutName(c10::Layout layout);
std::string_view MemoryFormatName(c10::MemoryFormat format);

// Looks up torch's Python types for DescribePython. Call once, after torch was imported. False, perhaps with a Python
// error set, when torch lacks one or its objects have another size than in torch's headers.
bool InitDescribePython();

// Calls `visit` for each tensor that has a Python object. False if Python's objects can't be listed. Needs the GIL.
bool VisitTensorsOfPython(void (*visit)(const at::Tensor& tensor));

// The tensor of a Python object; null: it is none, or an undefined one.
const at::Tensor* TensorOfPython(PyObject* object);

// torch.Tensor itself.
bool IsTensorType(const PyTypeObject* type);

// Describes any Python object, torch's objects too, as dialects/python/describe/value_describer.h says. Needs the GIL.
void DescribePython(PyObject* value, ConfigBuilder* config);
void AddPythonToKey(PyObject* value, CallKey* key);

// The program will have written the elements of a tensor, or of those in a list or tuple. For who doesn't see
// operators.
void CountPythonAsWritten(PyObject* value);

// What constructors take as one of a tensor's sizes, or as all of them, and not as its contents.
bool IsSize(PyObject* value);

// A tensor argument (of torch.Tensor or a subclass), with its subclass.
void DescribePythonTensor(PyObject* tensor, ConfigBuilder* config);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_DESCRIBE_H_
