#include "dialects/torch/device_times/device_times_hook.h"

#include <Python.h>

#include "absl/strings/str_cat.h"
#include "dialects/torch/device_times/cupti.h"
#include "dialects/torch/device_times/device_times.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"

namespace torchtrace::torch_dialect {
namespace {

// PyTorch's functions around a profile. Newer copies of pybind11 define them in the first form, older ones in the
// second.
enum ProfilerFunction : uint8_t { kPrepareProfiler, kEnableProfiler, kDisableProfiler, kProfilerFunctions };
constexpr const char* kProfilerNames[] = {"_prepare_profiler", "_enable_profiler", "_disable_profiler"};
constexpr char kProfilerModule[] = "torch._C._autograd";
BuiltinPatch g_profiler_functions[kProfilerFunctions];

template <ProfilerFunction which>
PyObject* ProfilerFast(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  using Fast = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
  if (which != kDisableProfiler) LeaveCuptiToProgram();
  PyObject* const result = g_profiler_functions[which].original<Fast>()(self, args, count, names);
  if (which == kDisableProfiler) TakeCuptiBack();
  return result;
}

template <ProfilerFunction which>
PyObject* ProfilerKeywords(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (which != kDisableProfiler) LeaveCuptiToProgram();
  PyObject* const result = g_profiler_functions[which].original<PyCFunctionWithKeywords>()(self, args, kwargs);
  if (which == kDisableProfiler) TakeCuptiBack();
  return result;
}

template <ProfilerFunction which>
bool WatchProfilerFunction() {
  BuiltinPatch& patch = g_profiler_functions[which];
  if (patch.definition() != nullptr) return true;
  return patch.Install(kProfilerModule, kProfilerNames[which], METH_FASTCALL | METH_KEYWORDS,
                       reinterpret_cast<void*>(ProfilerFast<which>)) ||
         patch.Install(kProfilerModule, kProfilerNames[which], METH_VARARGS | METH_KEYWORDS,
                       reinterpret_cast<void*>(ProfilerKeywords<which>));
}

}  // namespace

absl::Status DeviceTimesHook::Install() {
  const absl::StatusOr<Cupti> cupti = Cupti::Find();
  absl::Status status = cupti.status();
  // Without them the program's profiler would lose what is ours.
  if (status.ok() && (!WatchProfilerFunction<kPrepareProfiler>() || !WatchProfilerFunction<kEnableProfiler>() ||
                      !WatchProfilerFunction<kDisableProfiler>())) {
    status = absl::UnimplementedError("this torch has another profiler");
  }
  if (status.ok()) status = BeginDeviceTimes(*cupti);
  if (!status.ok()) Recorder::Get()->NoteNotSeen(absl::StrCat("device times: ", std::string(status.message())));
  return absl::OkStatus();
}

void DeviceTimesHook::Uninstall() { EndDeviceTimes(); }

}  // namespace torchtrace::torch_dialect
