// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/program_end.h"

#include <Python.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tracer/cpython/interpreter.h"
#include "tracer/follow/follow.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/fatal_signals.h"
#include "tracer/record/recorder.h"
#include "tracer/record/standard_error.h"

namespace torchtrace {
namespace {

// Whether it is a Python, or a script that names one in its first line.
bool IsPython(const std::string& program) {
  const std::string_view name = std::string_view(program).substr(program.rfind('/') + 1);
  if (name.starts_with("python") || name.starts_with("pypy")) return true;
  const int file = open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return false;
  char head[128];
  const ssize_t bytes = read(file, head, sizeof head);
  close(file);
  std::string_view line(head, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  line = line.substr(0, line.find('\n'));
  return line.starts_with("#!") && line.find("python") != std::string_view::npos;
}

// ---- _posixsubprocess.fork_exec(args, executable_list, close_fds, pass_fds, cwd, ...) ----
// subprocess and multiprocessing start programs with it. The child tries the list in order; the parent doesn't learn
// which one it was.

constexpr char kForkExecModule[] = "_posixsubprocess";
BuiltinPatch g_fork_exec;

std::optional<std::string> ExecutableOf(PyObject* candidates, PyObject* folder) {
  const bool is_tuple = PyTuple_CheckExact(candidates);
  if (!is_tuple && !PyList_CheckExact(candidates)) return "a program";
  const std::optional<std::string> cwd = folder == Py_None ? std::nullopt : PathOf(folder);
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(candidates) : PyList_GET_SIZE(candidates);
  for (Py_ssize_t i = 0; i < count; ++i) {
    std::optional<std::string> path =
        PathOf(is_tuple ? PyTuple_GET_ITEM(candidates, i) : PyList_GET_ITEM(candidates, i));
    if (!path.has_value()) return "a program";
    if (cwd.has_value() && !path->starts_with('/')) path = *cwd + "/" + *path;
    if (IsProgram(*path)) return path;
  }
  return std::nullopt;
}

PyObject* AfterForkExec(const std::optional<std::string>& program, PyObject* result) {
  if (result != nullptr && program.has_value()) NoteStartedProgram(*program);
  return result;
}

// Up to Python 3.11.
PyObject* ForkExecTuple(PyObject* self, PyObject* args) {
  std::optional<std::string> program;
  if (Recorder::SessionIsOn() && PyTuple_GET_SIZE(args) > 4) {
    program = ExecutableOf(PyTuple_GET_ITEM(args, 1), PyTuple_GET_ITEM(args, 4));
  }
  return AfterForkExec(program, g_fork_exec.original<PyCFunction>()(self, args));
}

PyObject* ForkExec(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  std::optional<std::string> program;
  if (Recorder::SessionIsOn() && count > 4) program = ExecutableOf(args[1], args[4]);
  return AfterForkExec(program, g_fork_exec.original<_PyCFunctionFast>()(self, args, count));
}

// `module` itself, or its name.
template <typename Module>
bool InstallForkExec(Module module) {
  void* const tuple = reinterpret_cast<void*>(ForkExecTuple);
  void* const fast = reinterpret_cast<void*>(ForkExec);
  return g_fork_exec.Install(module, "fork_exec", METH_VARARGS, tuple) ||
         g_fork_exec.Install(module, "fork_exec", METH_FASTCALL, fast);
}

// If the module is a file, the program may never import it, and we don't load it ourselves.
BuiltinPatch g_create_dynamic;

PyObject* CreateDynamic(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  PyObject* const module = g_create_dynamic.original<_PyCFunctionFast>()(self, args, count);
  static bool installed = false;
  if (installed || module == nullptr || !PyModule_Check(module)) return module;
  PyObject* const name = PyDict_GetItemString(PyModule_GetDict(module), "__name__");
  if (name == nullptr || !PyUnicode_Check(name)) return module;
  if (PyUnicode_CompareWithASCIIString(name, kForkExecModule) == 0) installed = InstallForkExec(module);
  return module;
}

void WatchForkExec() {
  PyObject* const builtins = PySys_GetObject("builtin_module_names");
  PyObject* const name = PyUnicode_FromString(kForkExecModule);
  const bool is_builtin = builtins != nullptr && name != nullptr && PySequence_Contains(builtins, name) == 1;
  Py_XDECREF(name);
  PyErr_Clear();
  if (is_builtin || ImportedModule(kForkExecModule) != nullptr) {
    InstallForkExec(kForkExecModule);
    return;
  }
  g_create_dynamic.Install("_imp", "create_dynamic", METH_FASTCALL, reinterpret_cast<void*>(CreateDynamic));
}

// ---- os.posix_spawn, os.posix_spawnp ----

BuiltinPatch g_posix_spawn;
BuiltinPatch g_posix_spawnp;

template <BuiltinPatch* patch>
PyObject* PosixSpawn(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  PyObject* const pid = patch->original<_PyCFunctionFastWithKeywords>()(self, args, count, names);
  if (pid != nullptr && count > 0 && Recorder::SessionIsOn()) {
    NoteStartedProgram(PathOf(args[0]).value_or("a program"));
  }
  return pid;
}

// ---- os.system ----

BuiltinPatch g_system;

PyObject* System(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  // Recorded first, because this process may end before the program, and the call never return.
  const Py_ssize_t total = count + (names != nullptr ? PyTuple_GET_SIZE(names) : 0);
  if (total == 1 && Recorder::SessionIsOn() && PathOf(args[0]).has_value()) NoteStartedProgram("/bin/sh");
  return g_system.original<_PyCFunctionFastWithKeywords>()(self, args, count, names);
}

}  // namespace

std::optional<std::string> PathOf(PyObject* path) {
  if (!PyUnicode_Check(path) && !PyBytes_Check(path)) return std::nullopt;
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path, &bytes) == 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  std::string text(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  Py_DECREF(bytes);
  return text;
}

bool IsProgram(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

void NoteStartedProgram(const std::string& program) {
  if (Recorder::SessionIsOn()) Recorder::Get()->CountStarted(program, IsPython(program));
}

void WatchStartedPrograms() {
  static bool watched = false;
  if (watched) return;
  watched = true;
  WatchForkExec();
  constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;
  g_posix_spawn.Install("posix", "posix_spawn", kFlags, reinterpret_cast<void*>(PosixSpawn<&g_posix_spawn>));
  g_posix_spawnp.Install("posix", "posix_spawnp", kFlags, reinterpret_cast<void*>(PosixSpawn<&g_posix_spawnp>));
  g_system.Install("posix", "system", kFlags, reinterpret_cast<void*>(System));
}

namespace {

// Never freed: exit handlers run after static destructors.
struct State {
  ProgramEndOptions options;
  pid_t main_pid = 0;
  std::atomic<bool> ended{false};
  bool finalizing = false;   // the hooks are removed
  bool interrupted = false;  // by an uncaught KeyboardInterrupt
  bool running_exit_functions = false;
};
State* g_state = nullptr;

bool InForkedChild() { return getpid() != g_state->main_pid; }

// Returns the exit code that the process has to have.
int EndProgram(RuntimeEnd end) {
  std::string error;
  if (Recorder* const recorder = Recorder::Get(); recorder != nullptr) {
    WatchSignalAgain(SIGBUS);  // Python's end may have removed the handler
    recorder->Finish({.exit_code = end.exit_code, .signal = end.signal});
    end.exit_code = recorder->ExitCode(end.exit_code);
    error = recorder->end_error();
  }
  if (g_state->ended.exchange(true)) return end.exit_code;
  if (!error.empty()) SayLines(error);
  // A copy, as Python may begin another session meanwhile.
  const ProgramEndOptions options = g_state->options;
  if (InForkedChild()) {
    if (options.fork_ended) options.fork_ended();
  } else if (options.ended) {
    options.ended(end);
  }
  return end.exit_code;
}

void OnExit(int status, void*) {
  const int code = EndProgram({.provisional = 0, .exit_code = status & 0xff, .signal = 0});
  // The C library calls the remaining functions, and ends the process with this one's code.
  if (code != (status & 0xff)) exit(code);
}

// Python threads other than this one may make finalising hang or abort.
bool OtherThreadsAlive() {
  PyThreadState* const first = PyInterpreterState_ThreadHead(PyInterpreterState_Main());
  return first != nullptr && PyThreadState_Next(first) != nullptr;
}

// Checks the interpreter's record of the exception that ended the program.
bool LastExceptionIsInterrupt() {
  PyObject* const type = PySys_GetObject("last_type");
  return type != nullptr && type == PyExc_KeyboardInterrupt;
}

// For daemon threads, which end once they have looked at their states. Untraced the process ends before the memory has
// other contents, but here its files are made.
void KeepFreedStates() {
  PyMemAllocatorEx allocator;
  PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &allocator);
  allocator.free = [](void*, void*) {};
  PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &allocator);
}

// ---- The last of the program's atexit functions ----

PyObject* BeforeFinalization(PyObject*, PyObject*) {
  // A program may run its exit functions early, see below.
  if (g_state->running_exit_functions || g_state->finalizing) Py_RETURN_NONE;
  g_state->finalizing = true;
  g_state->interrupted = LastExceptionIsInterrupt();
  if (g_state->options.before_finalization) g_state->options.before_finalization();
  const bool threads = OtherThreadsAlive();
  if (!InForkedChild() && !g_state->ended && g_state->options.ended && threads) {
    g_state->options.ended({.provisional = 1, .exit_code = 0, .signal = 0});
  }
  if (threads && kThreadsOutliveTheirStates) KeepFreedStates();
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
  // Not a static with an initialiser: that may release the GIL, and a thread that waits for the initialisation would
  // hold it.
  static PyObject* known = nullptr;
  PyObject* const callable = known != nullptr ? known : PyCFunction_New(&g_before_finalization, nullptr);
  if (known == nullptr) known = callable;
  PyObject* const modules = PyImport_GetModuleDict();
  const bool was_there = PyDict_GetItemString(modules, "atexit") != nullptr;
  PyObject* const atexit = PyImport_ImportModule("atexit");
  PyObject* const done = atexit != nullptr ? PyObject_CallMethod(atexit, "register", "O", callable) : nullptr;
  Py_XDECREF(done);
  Py_XDECREF(atexit);
  // The interpreter keeps atexit's state, so remove the module again: a program that lists modules sees no difference.
  if (!was_there && PyDict_DelItemString(modules, "atexit") != 0) PyErr_Clear();
  if (done == nullptr) {
    PyErr_Clear();
    return absl::InternalError("cannot register with Python's atexit");
  }
  return absl::OkStatus();
}

// ---- atexit._run_exitfuncs() and atexit._clear(), called by the program ----
// Both remove all functions, ours too, so we register it again. Then it is the first one, as it must be.

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

// The program must only see its own functions counted.
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
  // Anything except one int, which never runs Python code, is left to the original, which raises.
  const Py_ssize_t total = count + (names != nullptr ? PyTuple_GET_SIZE(names) : 0);
  if (total != 1 || !PyLong_Check(args[0])) return original(self, args, count, names);
  int overflow = 0;
  const long status = PyLong_AsLongAndOverflow(args[0], &overflow);
  const bool named = names != nullptr && PyTuple_GET_SIZE(names) == 1;
  const bool fits = overflow == 0 && status == static_cast<int>(status);
  if (!fits || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "status") != 0)) {
    return original(self, args, count, names);
  }
  const int code = EndProgram({.provisional = 0, .exit_code = static_cast<int>(status) & 0xff, .signal = 0});
  if (code != (static_cast<int>(status) & 0xff)) _exit(code);
  return original(self, args, count, names);
}

// ---- os.execv, os.execve ----
// They replace the program. Python searches PATH by trying, so we end the trace only if the file can be executed.

BuiltinPatch g_execv;
BuiltinPatch g_execve;

void EndBeforeExec(PyObject* path) {
  const std::optional<std::string> file = PathOf(path);
  if (!file.has_value() || !IsProgram(*file)) return;
  if (InForkedChild()) {
    NoteStartedProgram(*file);
  } else if (Recorder* const recorder = Recorder::Get(); recorder != nullptr && !recorder->follows()) {
    recorder->NoteNotSeen("what ran after the program's os.exec* of " + *file);
  } else if (const auto hand_on = reinterpret_cast<HandOnTaskFunction>(dlsym(RTLD_DEFAULT, kHandOnTaskName))) {
    hand_on();
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
    // This does nothing if the action is not the default one now.
    WatchSignalAgain(static_cast<int>(PyLong_AsLong(args[0])));
  }
  return before;
}

// ---- faulthandler.enable ----

BuiltinPatch g_enable_faulthandler;

PyObject* EnableFaulthandler(PyObject* self, PyObject* args, PyObject* keywords) {
  // Its handler calls the previous one, ours, which must not call it in turn.
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
  // For an exit() in C code while the interpreter still runs.
  if (first) on_exit(OnExit, nullptr);
}

void UnwatchProcessExit() { g_state->ended = true; }

absl::Status WatchInterpreterExit(bool signals) {
  static bool watched = false;
  if (std::exchange(watched, true)) return absl::OkStatus();
  if (absl::Status status = RegisterWithAtexit(); !status.ok()) return status;
  if (Py_AtExit(AfterFinalization) != 0) return absl::InternalError("Python takes no more exit functions");
  // Without these, we still see the program's end, but less exactly.
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

int ProgramReturned(int exit_code) {
  const int code = EndProgram({.provisional = 0, .exit_code = exit_code & 0xff, .signal = 0});
  return code != (exit_code & 0xff) ? code : exit_code;
}

}  // namespace torchtrace
