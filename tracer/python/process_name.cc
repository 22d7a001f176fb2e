// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/process_name.h"

#include <Python.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "tracer/cpython/frames.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"

namespace torchtrace {

std::string PythonProcessName() {
  for (const std::string_view file : {"/torch/utils/data/_utils/worker.py", "/paddle/io/dataloader/worker.py"}) {
    PyObject* const worker = ArgumentOf("_worker_loop", file, "worker_id");
    if (worker != nullptr && PyLong_CheckExact(worker) && BitsOf(worker) < 32)
      return absl::StrCat("DataLoader worker ", PyLong_AsLong(worker));
  }
  if (!HoldsGil()) return "";
  PyObject* const module = ImportedModule("multiprocessing.process");
  PyObject* const names = module == nullptr || !PyModule_Check(module) ? nullptr : PyModule_GetDict(module);
  PyObject* const process = names == nullptr ? nullptr : FindInDict(names, "_current_process");
  PyObject* const name = process == nullptr ? nullptr : InstanceAttribute(process, "_name");
  if (!IsText(name) || !PyUnicode_IS_ASCII(name) || TextIs(name, "MainProcess")) return "";
  return std::string(AsciiText(name));
}

}  // namespace torchtrace
