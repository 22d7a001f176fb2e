#include "dialects/torch/memory/parameters.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/memory/noted_memory.h"
#include "serialize/model/memory_event.h"
#include "tracer/cpython/objects.h"

namespace torchtrace::torch_dialect {
namespace {

std::optional<MemoryDevice> RecordedDevice(c10::Device device) {
  if (device.is_cpu()) return MemoryDevice();
  if (device.is_cuda()) return MemoryDevice{MemoryKind::kCuda, static_cast<uint32_t>(device.index())};
  return std::nullopt;
}

void NoteParameter(PyObject* object) {
  const at::Tensor* const tensor = TensorOfPython(object);
  if (tensor == nullptr) return;
  const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
  if (!impl.has_storage() || !impl.unsafe_storage()) return;
  c10::StorageImpl* const storage = impl.unsafe_storage().unsafeGetStorageImpl();
  const std::optional<MemoryDevice> device = RecordedDevice(storage->device());
  const void* const address = storage->_mutable_data_ptr_no_checks().get();
  if (!device.has_value() || address == nullptr) return;
  NoteMemory({.device = *device, .address = reinterpret_cast<uintptr_t>(address)});
}

template <typename Visit>
void ForEachValue(PyObject* dict, const Visit& visit) {
  PyObject *key, *value;
  Py_ssize_t position = 0;
  while (dict != nullptr && PyDict_Check(dict) && PyDict_Next(dict, &position, &key, &value) != 0) visit(value);
}

template <typename Visit>
void ForEachItem(PyObject* list, const Visit& visit) {
  if (list == nullptr || !PyList_Check(list)) return;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) visit(PyList_GET_ITEM(list, i));
}

// A module may be in several others, and in itself.
void NoteModules(PyObject* outermost) {
  absl::flat_hash_set<PyObject*> seen = {outermost};
  std::vector<PyObject*> left = {outermost};
  while (!left.empty()) {
    PyObject* const module = left.back();
    left.pop_back();
    ForEachValue(InstanceAttribute(module, "_parameters"), NoteParameter);
    ForEachValue(InstanceAttribute(module, "_modules"), [&](PyObject* inner) {
      if (seen.insert(inner).second) left.push_back(inner);
    });
  }
}

}  // namespace

void NoteParametersOf(PyObject* object) {
  ForEachItem(InstanceAttribute(object, "param_groups"), [](PyObject* group) {
    if (PyDict_Check(group)) ForEachItem(FindInDict(group, "params"), NoteParameter);
  });
  NoteModules(object);
}

}  // namespace torchtrace::torch_dialect
