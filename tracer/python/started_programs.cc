// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/python/started_programs.h"

#include <Python.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "tracer/python/python_patch.h"
#include "tracer/record/recorder.h"

namespace torchtrace {
namespace {

// A Python, or a script that names one in its first line.
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
// What subprocess and multiprocessing start programs with. The child tries one after another
// of the list; the parent isn't told which one it was.

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

// Where the module is a file, the program may never import it: it isn't loaded for us.
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
  // It returns when the program has ended; this process may have, before.
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

}  // namespace torchtrace
