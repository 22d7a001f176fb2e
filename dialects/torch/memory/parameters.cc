#include "dialects/torch/memory/parameters.h"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <structmember.h>

#include <cstdint>
#include <new>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/memory/noted_memory.h"
#include "serialize/model/memory_event.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

std::optional<MemoryDevice> RecordedDevice(c10::Device device) {
  if (device.is_cpu()) return MemoryDevice();
  if (device.is_cuda()) return MemoryDevice{MemoryKind::kCuda, static_cast<uint32_t>(device.index())};
  return std::nullopt;
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

// Calls `visit` with what the object's slots and attributes are.
template <typename Visit>
void ForEachAttribute(PyObject* object, const Visit& visit) {
  for (const PyTypeObject* type = Py_TYPE(object); type != nullptr; type = type->tp_base) {
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) break;
    for (const PyMemberDef* slot = type->tp_members; slot != nullptr && slot->name != nullptr; ++slot) {
      if (slot->type != T_OBJECT_EX) continue;
      PyObject* const value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + slot->offset);
      if (value != nullptr) visit(value);
    }
  }
  if (const InlineAttributes attributes(object); attributes.there()) {
    for (Py_ssize_t i = 0; i < attributes.count(); ++i) {
      if (attributes.value(i) != nullptr) visit(attributes.value(i));
    }
  } else if (PyObject** const dict = _PyObject_GetDictPtr(object); dict != nullptr) {
    ForEachValue(*dict, visit);
  }
}

// How deep tensors without memory of their own, such as DTensor, may hold others.
constexpr int kMostDepth = 4;

void NoteParameterIn(PyObject* object, int depth) {
  const at::Tensor* const tensor = TensorOfPython(object);
  if (tensor == nullptr) return;
  const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
  c10::StorageImpl* const storage =
      impl.has_storage() && impl.unsafe_storage() ? impl.unsafe_storage().unsafeGetStorageImpl() : nullptr;
  const void* const address = storage == nullptr ? nullptr : storage->_mutable_data_ptr_no_checks().get();
  if (address == nullptr) {
    if (depth < kMostDepth) ForEachAttribute(object, [depth](PyObject* inner) { NoteParameterIn(inner, depth + 1); });
  } else if (const std::optional<MemoryDevice> device = RecordedDevice(storage->device()); device.has_value()) {
    NoteMemory({.device = *device, .address = reinterpret_cast<uintptr_t>(address)});
  }
}

void NoteParameter(PyObject* object) { NoteParameterIn(object, 0); }

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
  try {
    ForEachItem(InstanceAttribute(object, "param_groups"), [](PyObject* group) {
      if (PyDict_Check(group)) ForEachItem(FindInDict(group, "params"), NoteParameter);
    });
    NoteModules(object);
  } catch (const std::bad_alloc&) {  // the program goes on
    Recorder::Get()->Stop(kNoMemory);
  }
}

}  // namespace torchtrace::torch_dialect
