// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/torch/common/frame_slot_hook.h"

#include <Python.h>

#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/frame_evaluation.h"

namespace torchtrace::torch_dialect {
namespace {

BuiltinPatch g_set_eval_frame;

PyObject* SetEvalFrame(PyObject* module, PyObject* callback) {
  PyObject* const before = g_set_eval_frame.original<PyCFunction>()(module, callback);
  python_dialect::KeepFrameEvaluation();
  return before;
}

}  // namespace

absl::Status FrameSlotHook::Install() {
  if (g_set_eval_frame.Install("torch._C._dynamo.eval_frame", "set_eval_frame", METH_O,
                               reinterpret_cast<void*>(SetEvalFrame))) {
    python_dialect::StartKeepingBuiltins();
    python_dialect::KeepBuiltin(g_set_eval_frame.definition(), g_set_eval_frame.original<PyCFunction>());
    return absl::OkStatus();
  }
  return absl::InternalError("torch's frame evaluation is not as expected");
}

void FrameSlotHook::Uninstall() {
  if (g_set_eval_frame.definition() == nullptr) return;
  g_set_eval_frame.Restore();
  python_dialect::StopKeepingBuiltins();
}

}  // namespace torchtrace::torch_dialect
