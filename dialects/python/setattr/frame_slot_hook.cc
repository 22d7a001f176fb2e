// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/setattr/frame_slot_hook.h"

#include <Python.h>

#include "absl/strings/str_cat.h"
#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/frame_evaluation.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::python_dialect {
namespace {

BuiltinPatch g_set_eval_frame;

PyObject* SetWithOne(PyObject* self, PyObject* callback) {
  PyObject* const before = g_set_eval_frame.original<PyCFunction>()(self, callback);
  KeepFrameEvaluation();
  return before;
}

PyObject* SetWithAny(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* const before = g_set_eval_frame.original<PyCFunctionWithKeywords>()(self, args, kwargs);
  KeepFrameEvaluation();
  return before;
}

}  // namespace

absl::Status FrameSlotHook::Install() {
  constexpr char kFunction[] = "set_eval_frame";
  const bool installed =
      g_set_eval_frame.Install(module_.c_str(), kFunction, METH_O, reinterpret_cast<void*>(SetWithOne)) ||
      g_set_eval_frame.Install(module_.c_str(), kFunction, METH_VARARGS | METH_KEYWORDS,
                               reinterpret_cast<void*>(SetWithAny));
  if (!installed) return absl::InternalError(absl::StrCat(module_, ".", kFunction, " is not as expected"));
  StartKeepingBuiltins();
  KeepBuiltin(g_set_eval_frame.definition(), g_set_eval_frame.original<PyCFunction>());
  return absl::OkStatus();
}

void FrameSlotHook::Uninstall() {
  if (g_set_eval_frame.definition() == nullptr) return;
  g_set_eval_frame.Restore();
  StopKeepingBuiltins();
}

}  // namespace torchtrace::python_dialect
