// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/program_end.h"

#include <Python.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "tracer/python/python_patch.h"
#include "tracer/python/started_programs.h"
#include "tracer/record/fatal_signals.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

// Leaked: exit handlers run after static destructors.
struct State {
  ProgramEndOptions options;
  pid_t main_pid = 0;
  std::atomic<bool> ended{false};
  bool finalizing = false;   // the hooks are gone
  bool interrupted = false;  // by a KeyboardInterrupt that nobody caught
  bool running_exit_functions = false;
};
State* g_state = nullptr;

bool InForkedChild() { return getpid() != g_state->main_pid; }

void EndProgram(const RuntimeEnd& end) {
  if (Recorder* const recorder = Recorder::Get(); recorder != nullptr) {
    WatchSignalAgain(SIGBUS);  // Python's end may have taken the handler away
    recorder->Finish({.exit_code = end.exit_code, .signal = end.signal});
  }
  if (InForkedChild() || g_state->ended.exchange(true)) return;
  // Python may open another trace meanwhile.
  const auto ended = g_state->options.ended;
  if (ended) ended(end);
}

void OnExit(int status, void*) { EndProgram({.provisional = 0, .exit_code = status & 0xff, .signal = 0}); }

// Python threads other than this one may make finalising hang or abort.
bool OtherThreadsAlive() {
  PyThreadState* const first = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
  return first != nullptr && PyThreadState_Next(first) != nullptr;
}

// What the interpreter keeps of the exception that ended the program.
bool LastExceptionIsInterrupt() {
  PyObject* const type = PySys_GetObject("last_type");
  return type != nullptr && type == PyExc_KeyboardInterrupt;
}

// ---- The last of the program's atexit functions ----

PyObject* BeforeFinalization(PyObject*, PyObject*) {
  // A program may run its exit functions early, see below.
  if (g_state->running_exit_functions || g_state->finalizing) Py_RETURN_NONE;
  g_state->finalizing = true;
  g_state->interrupted = LastExceptionIsInterrupt();
  if (g_state->options.before_finalization) g_state->options.before_finalization();
  if (!InForkedChild() && !g_state->ended && g_state->options.ended && OtherThreadsAlive()) {
    g_state->options.ended({.provisional = 1, .exit_code = 0, .signal = 0});
  }
  Py_RETURN_NONE;
}
PyMethodDef g_before_finalization = {"torchtrace", BeforeFinalization, METH_NOARGS, nullptr};

// The interpreter is gone, the libraries are still there.
void AfterFinalization() {
  if (g_state->interrupted) {
    // Python will now kill itself with SIGINT, past every exit handler.
    EndProgram({.provisional = 0, .exit_code = 0, .signal = SIGINT});
    return;
  }
  // Registered last, so called first: before the static destructors of the
  // libraries that the program loaded, where a thread of theirs may hang or abort.
  on_exit(OnExit, nullptr);
}

absl::Status RegisterWithAtexit() {
  // No static that is made in place: making it may let go of the GIL, and who waits for it
  // there keeps it.
  static PyObject* known = nullptr;
  PyObject* const callable = known != nullptr ? known : PyCFunction_New(&g_before_finalization, nullptr);
  if (known == nullptr) known = callable;
  PyObject* const modules = PyImport_GetModuleDict();
  const bool was_there = PyDict_GetItemString(modules, "atexit") != nullptr;
  PyObject* const atexit = PyImport_ImportModule("atexit");
  PyObject* const done = atexit != nullptr ? PyObject_CallMethod(atexit, "register", "O", callable) : nullptr;
  Py_XDECREF(done);
  Py_XDECREF(atexit);
  // Its state is the interpreter's; a program that lists its modules sees the same.
  if (!was_there && PyDict_DelItemString(modules, "atexit") != 0) PyErr_Clear();
  if (done == nullptr) {
    PyErr_Clear();
    return absl::InternalError("cannot register with Python's atexit");
  }
  return absl::OkStatus();
}

// ---- atexit._run_exitfuncs() and atexit._clear(), called by the program ----
// Both forget all functions, ours too. It goes back in: it must be the first
// registered, and there are none.

BuiltinPatch g_run_exit_functions;
BuiltinPatch g_clear;

PyObject* RunExitFunctions(PyObject* self, PyObject* args) {
  g_state->running_exit_functions = true;
  PyObject* const result = g_run_exit_functions.original<PyCFunction>()(self, args);
  g_state->running_exit_functions = false;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  RegisterWithAtexit().IgnoreError();
  PyErr_Restore(type, value, traceback);
  return result;
}

PyObject* Clear(PyObject* self, PyObject* args) {
  PyObject* const result = g_clear.original<PyCFunction>()(self, args);
  RegisterWithAtexit().IgnoreError();
  return result;
}

// The program counts its own.
BuiltinPatch g_count;

PyObject* CountExitFunctions(PyObject* self, PyObject* args) {
  PyObject* const count = g_count.original<PyCFunction>()(self, args);
  if (count == nullptr) return nullptr;
  PyObject* const less = PyLong_FromSsize_t(std::max<Py_ssize_t>(PyLong_AsSsize_t(count) - 1, 0));
  Py_DECREF(count);
  return less;
}

// ---- os._exit ----

BuiltinPatch g_os_exit;

PyObject* OsExit(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const auto original = g_os_exit.original<_PyCFunctionFastWithKeywords>();
  // Anything but one int, which never runs Python code, is left to the original:
  // it raises.
  const Py_ssize_t total = count + (names != nullptr ? PyTuple_GET_SIZE(names) : 0);
  if (total != 1 || !PyLong_Check(args[0])) return original(self, args, count, names);
  int overflow = 0;
  const long status = PyLong_AsLongAndOverflow(args[0], &overflow);
  const bool named = names != nullptr && PyTuple_GET_SIZE(names) == 1;
  const bool fits = overflow == 0 && status == static_cast<int>(status);
  if (!fits || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "status") != 0)) {
    return original(self, args, count, names);
  }
  EndProgram({.provisional = 0, .exit_code = static_cast<int>(status) & 0xff, .signal = 0});
  return original(self, args, count, names);
}

// ---- os.execv, os.execve ----
// What comes after is another program. Python looks for it by trying, so the
// end is only believed where there is a file to execute.

BuiltinPatch g_execv;
BuiltinPatch g_execve;

void EndBeforeExec(PyObject* path) {
  const std::optional<std::string> file = PathOf(path);
  if (!file.has_value() || !IsProgram(*file)) return;
  if (InForkedChild()) {
    NoteStartedProgram(*file);
  } else if (Recorder* const recorder = Recorder::Get(); recorder != nullptr) {
    recorder->NoteNotSeen("what ran after the program called os.exec* of " + *file);
  }
  EndProgram({.provisional = 0, .exit_code = 0, .signal = 0});
}

PyObject* Execv(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  if (count == 2) EndBeforeExec(args[0]);
  return g_execv.original<_PyCFunctionFast>()(self, args, count);
}

PyObject* Execve(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  if (count == 3) EndBeforeExec(args[0]);
  return g_execve.original<_PyCFunctionFastWithKeywords>()(self, args, count, names);
}

// ---- signal.signal ----

BuiltinPatch g_signal;

PyObject* Signal(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  PyObject* const before = g_signal.original<_PyCFunctionFast>()(self, args, count);
  if (before != nullptr && count == 2 && PyLong_Check(args[0])) {
    // Where the action is not the default one now, this does nothing.
    WatchSignalAgain(static_cast<int>(PyLong_AsLong(args[0])));
  }
  return before;
}

// ---- faulthandler.enable ----

BuiltinPatch g_enable_faulthandler;

PyObject* EnableFaulthandler(PyObject* self, PyObject* args, PyObject* keywords) {
  // Its handler hands on to the one before, which must not hand on to it.
  const bool watched = IsWatchingBusErrors();
  PyObject* const done = g_enable_faulthandler.original<PyCFunctionWithKeywords>()(self, args, keywords);
  if (done != nullptr && !watched) WatchSignalAgain(SIGBUS);
  return done;
}

}  // namespace

void WatchProcessExit(ProgramEndOptions options) {
  const bool first = g_state == nullptr;
  if (first) g_state = new State;
  g_state->options = std::move(options);
  g_state->main_pid = getpid();
  g_state->ended = false;
  // For an exit() that is called by C code with the interpreter still running.
  if (first) on_exit(OnExit, nullptr);
}

void UnwatchProcessExit() { g_state->ended = true; }

absl::Status WatchInterpreterExit(bool signals) {
  static bool watched = false;
  if (std::exchange(watched, true)) return absl::OkStatus();
  if (absl::Status status = RegisterWithAtexit(); !status.ok()) return status;
  if (Py_AtExit(AfterFinalization) != 0) return absl::InternalError("Python takes no more exit functions");
  // Without these the program's end is still seen, only less exactly.
  g_run_exit_functions.Install("atexit", "_run_exitfuncs", METH_NOARGS, reinterpret_cast<void*>(RunExitFunctions));
  g_clear.Install("atexit", "_clear", METH_NOARGS, reinterpret_cast<void*>(Clear));
  g_count.Install("atexit", "_ncallbacks", METH_NOARGS, reinterpret_cast<void*>(CountExitFunctions));
  g_os_exit.Install("posix", "_exit", METH_FASTCALL | METH_KEYWORDS, reinterpret_cast<void*>(OsExit));
  g_execv.Install("posix", "execv", METH_FASTCALL, reinterpret_cast<void*>(Execv));
  g_execve.Install("posix", "execve", METH_FASTCALL | METH_KEYWORDS, reinterpret_cast<void*>(Execve));
  WatchStartedPrograms();
  if (signals) {
    g_signal.Install("_signal", "signal", METH_FASTCALL, reinterpret_cast<void*>(Signal));
    g_enable_faulthandler.Install("faulthandler", "enable", METH_VARARGS | METH_KEYWORDS,
                                  reinterpret_cast<void*>(EnableFaulthandler));
  }
  return absl::OkStatus();
}

void ProgramReturned(int exit_code) { EndProgram({.provisional = 0, .exit_code = exit_code & 0xff, .signal = 0}); }

}  // namespace torchtrace
