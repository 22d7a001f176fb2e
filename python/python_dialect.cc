// Python.h must come first.
#define PY_SSIZE_T_CLEAN
#include "python/python_dialect.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tracer/framework_dialect.h"

namespace torchtrace {
namespace {

// Calls extension.<method>(argument), which raises nothing except KeyboardInterrupt for the user's Ctrl-C. That belongs
// to the program: it is raised again when Python code of the program next runs. A new reference, or null.
PyObject* CallGuarded(PyObject* extension, const char* method, PyObject* argument) {
  PyObject* const result = PyObject_CallMethod(extension, method, "O", argument);
  if (result == nullptr) {
    const bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
    PyErr_Clear();
    if (interrupted) PyErr_SetInterrupt();
  }
  return result;
}

// Releases its Python objects when it is uninstalled.
class PythonHook : public TracingHook {
 public:
  PythonHook(PyObject* extension, int level, std::string name, PyObject* hook)
      : extension_(Py_NewRef(extension)), level_(level), name_(std::move(name)), hook_(Py_NewRef(hook)) {}

  int level() const override { return level_; }
  std::string name() const override { return name_; }
  absl::Status Install() override {
    Py_XDECREF(CallGuarded(extension_, "install", hook_));
    return absl::OkStatus();
  }
  void Uninstall() override {
    if (hook_ == nullptr) return;
    Py_XDECREF(CallGuarded(extension_, "uninstall", hook_));
    Py_CLEAR(hook_);
    Py_CLEAR(extension_);
  }

 private:
  PyObject* extension_;
  const int level_;
  const std::string name_;
  PyObject* hook_;
};

class PythonDialect : public FrameworkDialect {
 public:
  explicit PythonDialect(std::string name) : name_(std::move(name)) {}

  void Use(std::string package, std::vector<int> levels, PyObject* extension) {
    package_ = std::move(package);
    levels_ = std::move(levels);
    Py_XSETREF(extension_, Py_NewRef(extension));
  }

  std::string name() const override { return name_; }
  std::string package() const override { return package_; }
  std::vector<int> levels() const override { return levels_; }

  absl::StatusOr<std::vector<std::unique_ptr<TracingHook>>> CreateHooks(Recorder*,
                                                                        const RecordingOptions& options) override {
    std::vector<std::unique_ptr<TracingHook>> hooks;
    PyObject* const levels = PyList_New(0);
    for (int level : options.levels) {
      PyObject* const number = PyLong_FromLong(level);
      PyList_Append(levels, number);
      Py_DECREF(number);
    }
    PyObject* const made = CallGuarded(extension_, "make_hooks", levels);
    Py_DECREF(levels);
    for (Py_ssize_t i = 0; made != nullptr && i < PyList_GET_SIZE(made); ++i) {
      int level;
      const char* name;
      PyObject* hook;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(made, i), "isO", &level, &name, &hook)) break;
      hooks.push_back(std::make_unique<PythonHook>(extension_, level, name, hook));
    }
    Py_XDECREF(made);
    PyErr_Clear();
    return hooks;
  }

 private:
  const std::string name_;
  std::string package_;
  std::vector<int> levels_;
  PyObject* extension_ = nullptr;
};

}  // namespace

PyObject* RegisterPythonDialect(PyObject*, PyObject* args) {
  // Owned by the registry, which never deletes them.
  static auto* const known = new std::map<std::string, PythonDialect*>();
  const char *name, *package;
  PyObject *numbers, *extension;
  if (!PyArg_ParseTuple(args, "ssO!O", &name, &package, &PyList_Type, &numbers, &extension)) return nullptr;
  std::vector<int> levels;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(numbers); ++i) {
    levels.push_back(static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(numbers, i))));
  }
  if (PyErr_Occurred() != nullptr) return nullptr;
  PythonDialect*& dialect = (*known)[name];
  if (dialect == nullptr) {
    auto made = std::make_unique<PythonDialect>(name);
    dialect = made.get();
    RegisterDialect(std::move(made));
  }
  dialect->Use(package, std::move(levels), extension);
  Py_RETURN_NONE;
}

}  // namespace torchtrace
