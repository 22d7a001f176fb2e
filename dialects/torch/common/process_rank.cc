#include "dialects/torch/common/process_rank.h"

#include <Python.h>

#include <cstdint>
#include <string>

#include "tracer/cpython/objects.h"
#include "tracer/python/import_watch.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr char kModule[] = "torch.distributed.distributed_c10d";
constexpr char kNative[] = "torch._C._distributed_c10d";

// Calls a method written in C++; -1 if it fails.
int64_t Ask(PyObject* group, const char* method) {
  PyObject* const number = PyObject_CallMethod(group, method, nullptr);
  const int64_t value = number != nullptr && PyLong_Check(number) ? PyLong_AsLong(number) : -1;
  PyErr_Clear();
  Py_XDECREF(number);
  return value;
}

// Records the rank in the default group if that is of PyTorch's own class: others may be written in Python.
void TellRank() {
  PyObject* const module = ImportedModule(kModule);
  PyObject* const native = ImportedModule(kNative);
  if (!Recorder::SessionIsOn() || module == nullptr || native == nullptr || !PyModule_Check(module)) return;
  PyObject* const world = FindInDict(PyModule_GetDict(module), "_world");
  PyObject* const group = world == nullptr ? nullptr : InstanceAttribute(world, "_default_pg");
  const PyObject* const type = PyModule_Check(native) ? FindInDict(PyModule_GetDict(native), "ProcessGroup") : nullptr;
  if (group == nullptr || reinterpret_cast<PyObject*>(Py_TYPE(group)) != type) return;
  ++t_thread.suspended;
  const int64_t rank = Ask(group, "rank"), size = Ask(group, "size");
  --t_thread.suspended;
  if (rank < 0 || size <= rank) return;
  // Forked processes have it too, until they get their own.
  Recorder::Get()->AddMetadata("{\"rank\":" + std::to_string(rank) + ",\"world_size\":" + std::to_string(size) + "}");
}

// torch._C._distributed_c10d._set_global_rank, which distributed_c10d calls when it has another default group. Newer
// copies of pybind11 define their functions in the first form, older ones in the second.
BuiltinPatch g_set_global_rank;

using FastFunction = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
PyObject* SetGlobalRankFast(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* const result = g_set_global_rank.original<FastFunction>()(self, args, count, names);
  if (result != nullptr) TellRank();
  return result;
}

PyObject* SetGlobalRank(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* const result = g_set_global_rank.original<PyCFunctionWithKeywords>()(self, args, kwargs);
  if (result != nullptr) TellRank();
  return result;
}

void WatchGroups() {
  PyObject* const native = ImportedModule(kNative);
  if (native == nullptr || !PyModule_Check(native)) return;
  const auto install = [native](int flags, void* function) {
    return g_set_global_rank.Install(native, "_set_global_rank", flags | METH_KEYWORDS, function);
  };
  if (!install(METH_FASTCALL, reinterpret_cast<void*>(SetGlobalRankFast)) &&
      !install(METH_VARARGS, reinterpret_cast<void*>(SetGlobalRank))) {
    Recorder::Get()->NoteNotSeen("the rank of a process that only torch.distributed knows");
  }
}

}  // namespace

absl::Status WatchProcessRank() {
  static bool watched = false;
  if (!watched) {
    if (absl::Status status = WatchImport(kModule, WatchGroups); !status.ok()) return status;
    watched = true;
  }
  TellRank();
  return absl::OkStatus();
}

}  // namespace torchtrace::torch_dialect
