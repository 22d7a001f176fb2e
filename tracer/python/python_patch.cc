// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/python_patch.h"

#include <Python.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace torchtrace {
namespace {

struct Range {
  uintptr_t begin;
  uintptr_t end;
};

std::vector<Range> ReadWritableRanges() {
  std::vector<Range> ranges;
  FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return ranges;
  char line[4096 + 256];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    Range range;
    char modes[5] = "";
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &range.begin, &range.end, modes) == 3 && modes[1] == 'w') {
      ranges.push_back(range);
    }
  }
  static_cast<void>(std::fclose(maps));
  return ranges;
}

bool Contains(const std::vector<Range>& ranges, uintptr_t address) {
  for (const Range& range : ranges) {
    if (address >= range.begin && address < range.end) return true;
  }
  return false;
}

}  // namespace

bool IsWritable(const void* place) {
  // Read again for an unknown address, as more libraries may have been loaded.
  static auto* const ranges = new std::vector<Range>();
  const auto address = reinterpret_cast<uintptr_t>(place);
  if (Contains(*ranges, address)) return true;
  *ranges = ReadWritableRanges();
  return Contains(*ranges, address);
}

PyObject* ImportedModule(const char* name) { return PyDict_GetItemString(PyImport_GetModuleDict(), name); }

bool BuiltinPatch::Install(const char* module, const char* name, int flags, void* function) {
  if (PyObject* const known = ImportedModule(module)) return Install(known, name, flags, function);
  PyObject* const owner = PyImport_ImportModule(module);
  const bool installed = owner != nullptr && Install(owner, name, flags, function);
  Py_XDECREF(owner);
  // The program must not see a module that only we imported.
  if (PyDict_DelItemString(PyImport_GetModuleDict(), module) != 0) PyErr_Clear();
  PyErr_Clear();
  return installed;
}

bool BuiltinPatch::Install(PyObject* module, const char* name, int flags, void* function) {
  PyObject* const found = PyObject_GetAttrString(module, name);
  PyErr_Clear();
  const bool fits = found != nullptr && PyCFunction_CheckExact(found) && PyCFunction_GET_FLAGS(found) == flags &&
                    IsWritable(&reinterpret_cast<PyCFunctionObject*>(found)->m_ml->ml_meth);
  if (fits) {
    // The definition is the module's static table: it outlives the object.
    definition_ = reinterpret_cast<PyCFunctionObject*>(found)->m_ml;
    original_ = reinterpret_cast<void*>(definition_->ml_meth);
    definition_->ml_meth = reinterpret_cast<PyCFunction>(function);
  }
  Py_XDECREF(found);
  return fits;
}

void BuiltinPatch::Restore() {
  if (definition_ != nullptr) definition_->ml_meth = reinterpret_cast<PyCFunction>(original_);
  definition_ = nullptr;
}

}  // namespace torchtrace
