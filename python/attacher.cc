// Python.h must come first.
#define PY_SSIZE_T_CLEAN
#include "python/attacher.h"

#include <Python.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "python/held_signals.h"
#include "serialize/base/monotonic_clock.h"

namespace torchtrace {
namespace {

// A pending call of the main thread.
int CloseTrace(void*) {
  HoldSignals();
  PyObject* const module = PyImport_ImportModule("torchtrace._attach");
  PyObject* const result = module != nullptr ? PyObject_CallMethod(module, "end", nullptr) : nullptr;
  Py_XDECREF(result);
  Py_XDECREF(module);
  PyErr_Clear();
  PyObject* const raised = PyList_New(0);
  if (raised != nullptr) ReleaseSignals(raised, nullptr);
  Py_XDECREF(raised);
  return 0;
}

}  // namespace

// Asked about once in some thousand calls. No descriptor stays open, as the program may close it.
bool Waits(const Attacher& attacher) {
  if (attacher.deadline_ns != 0 && MonotonicNowNs() > attacher.deadline_ns) return false;
  const int file = open(attacher.task.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno != ENOENT;
  const bool is_held = !attacher.locks || flock(file, LOCK_SH | LOCK_NB) != 0;
  close(file);
  return is_held;
}

std::function<bool()> WatchAttacher(Attacher attacher) {
  return [attacher = std::move(attacher)] {
    if (Waits(attacher)) return true;
    Py_AddPendingCall(CloseTrace, nullptr);
    return false;
  };
}

}  // namespace torchtrace
