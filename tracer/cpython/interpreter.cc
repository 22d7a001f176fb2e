// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/cpython/interpreter.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "tracer/cpython/objects.h"

#if PY_VERSION_HEX < 0x030C0000
#undef HAVE_STD_ATOMIC  // of C, not of C++
#undef _PyGC_FINALIZED
#define Py_BUILD_CORE
#include <internal/pycore_interp.h>
#undef Py_BUILD_CORE
#endif

namespace torchtrace {

#if PY_VERSION_HEX >= 0x030C0000

std::vector<PyObject*> CollectedObjects() {
  std::vector<PyObject*> objects;
  const auto visit = [](PyObject* object, void* all) {
    static_cast<std::vector<PyObject*>*>(all)->push_back(object);
    return 1;
  };
  PyUnstable_GC_VisitObjects(visit, &objects);
  return objects;
}

#else

std::vector<PyObject*> CollectedObjects() {
  std::vector<PyObject*> objects;
  _gc_runtime_state& collector = PyInterpreterState_Get()->gc;
  if (collector.collecting != 0) return objects;  // its lists are inconsistent
  const auto visit = [&objects](PyGC_Head* list) {
    for (PyGC_Head* head = _PyGCHead_NEXT(list); head != list; head = _PyGCHead_NEXT(head)) {
      objects.push_back(reinterpret_cast<PyObject*>(head + 1));
    }
  };
  for (gc_generation& generation : collector.generations) visit(&generation.head);
  visit(&collector.permanent_generation.head);
  return objects;
}

#endif

std::vector<PyObject**> CallablesKnownByHeart() {
#if PY_VERSION_HEX >= 0x030B0000
  // They are three adjacent words of the interpreter's state, which ends with the state of its first thread.
  PyInterpreterState* const interpreter = PyInterpreterState_Get();
  auto* const begin = reinterpret_cast<PyObject**>(interpreter);
  PyThreadState* first = PyInterpreterState_ThreadHead(interpreter);
  while (PyThreadState_Next(first) != nullptr) first = PyThreadState_Next(first);
  auto* const end = reinterpret_cast<PyObject**>(first);
  constexpr ptrdiff_t kMostWords = 1 << 17;
  if (end < begin || end - begin > kMostWords) return {};
  PyObject* const builtins = PyModule_GetDict(PyImport_AddModule("builtins"));
  PyObject* const known[] = {PyDict_GetItemString(builtins, "isinstance"), PyDict_GetItemString(builtins, "len"),
                             PyDict_GetItemString(DictOf(&PyList_Type), "append")};
  PyObject** const found = std::search(begin, end, std::begin(known), std::end(known));
  if (found != end) return {found, found + 1, found + 2};
#endif
  return {};
}

bool IsClassKnownByHeart(const PyTypeObject* type) {
  return PY_VERSION_HEX >= 0x030B0000 && (type == &PyType_Type || type == &PyUnicode_Type || type == &PyTuple_Type);
}

}  // namespace torchtrace
