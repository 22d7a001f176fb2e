// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "tracer/cpython/frames.h"

#include <algorithm>

#if PY_VERSION_HEX < 0x030B0000
#include <unordered_map>
#endif

#include "tracer/cpython/interpreter.h"
#include "tracer/cpython/objects.h"

namespace torchtrace {
namespace {

bool g_known = false;

}  // namespace

bool FramesAreKnown() { return g_known; }

#if PY_VERSION_HEX < 0x030B0000

namespace {

PyFunctionObject* FindFunction(const InterpreterFrame* frame) {
  for (PyObject* object : CollectedObjects()) {
    if (PyFunction_Check(object) && PyFunction_GET_CODE(object) == reinterpret_cast<PyObject*>(frame->f_code) &&
        PyFunction_GET_GLOBALS(object) == frame->f_globals)
      return reinterpret_cast<PyFunctionObject*>(object);
  }
  return nullptr;
}

PyObject* Likeness(const PyFunctionObject* function) {
  const bool collects = PyGC_Disable() != 0;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const made =
      PyFunction_NewWithQualName(function->func_code, function->func_globals, function->func_qualname);
  PyErr_Restore(type, value, traceback);
  if (collects) PyGC_Enable();
  return made;
}

}  // namespace

PyObject* FunctionOf(const InterpreterFrame* frame) {
  // Each function keeps its code, the key, alive.
  static auto* const known = new std::unordered_map<const PyCodeObject*, PyObject*>;
  const PyCodeObject* const code = frame->f_code;
  if ((code->co_flags & CO_OPTIMIZED) == 0) return nullptr;  // the body of a module or class
  if (const auto found = known->find(code); found != known->end()) return found->second;
  PyFunctionObject* const function = FindFunction(frame);
  if (function == nullptr) return nullptr;
  PyObject* kept = reinterpret_cast<PyObject*>(function);
  if ((code->co_flags & CO_NESTED) != 0) {
    kept = Likeness(function);
    if (kept == nullptr) return nullptr;
  } else {
    Py_INCREF(kept);
  }
  known->emplace(code, kept);
  return kept;
}

#endif

namespace {

InterpreterFrame* FirstBegun(InterpreterFrame* frame) {
  while (frame != nullptr && !HasBegun(frame)) frame = PreviousFrame(frame);
  return frame;
}

InterpreterFrame* Innermost() {
  if (!g_known) return nullptr;
  // Works without the GIL.
  const PyThreadState* const thread = PyGILState_GetThisThreadState();
  return thread == nullptr ? nullptr : FirstBegun(InnermostFrame(thread));
}

// Whether the innermost frame is that of a call of `function` with `argument`. With a wrong layout the fields may be
// wild pointers, so each is compared before anything is read through it.
bool IsInnermost(PyObject* function, PyObject* argument) {
  PyFrameObject* const object = PyEval_GetFrame();
  const InterpreterFrame* const frame = InnermostFrame(PyThreadState_Get());
  if (object == nullptr || frame == nullptr) return false;
  PyCodeObject* const code = PyFrame_GetCode(object);
  Py_DECREF(code);  // the frame, which runs, keeps it
  return CodeOf(frame) == code && IsOfCall(frame) && FunctionOf(frame) == function && LocalOf(frame, 0) == argument;
}

bool AreAllTheSame() {
  constexpr size_t kMost = 16;
  RunningFrame frames[kMost];
  const size_t all = RunningFrames(frames, kMost);
  size_t index = 0;
  bool same = true;
  PyFrameObject* object = PyEval_GetFrame();
  Py_XINCREF(object);
  while (object != nullptr) {
    PyCodeObject* const code = PyFrame_GetCode(object);
    if (index < std::min(all, kMost))
      same = same && frames[index].code == code && LineOf(frames[index]) == PyFrame_GetLineNumber(object);
    Py_DECREF(code);
    PyFrameObject* const back = PyFrame_GetBack(object);
    Py_DECREF(object);
    object = back;
    ++index;
  }
  return same && index == all;
}

PyObject* Look(PyObject*, PyObject* args) {
  PyObject *function, *argument;
  if (PyArg_UnpackTuple(args, "look", 2, 2, &function, &argument) == 0) return nullptr;
  if (IsInnermost(function, argument)) {
    g_known = true;
    g_known = AreAllTheSame();
  }
  Py_RETURN_NONE;
}

PyMethodDef g_look = {"look", Look, METH_VARARGS, nullptr};

constexpr char kCalls[] =
    "def inner(argument):\n"
    "    look(inner, argument)\n"
    "def outer(call):\n"
    "    call([])\n"
    "outer(inner)\n";

}  // namespace

bool CheckFrames() {
  static bool looked = false;
  if (looked) return g_known;
  looked = true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const globals = PyDict_New();
  PyObject* const look = PyCFunction_New(&g_look, nullptr);
  if (globals != nullptr && look != nullptr && PyDict_SetItemString(globals, "look", look) == 0)
    Py_XDECREF(PyRun_String(kCalls, Py_file_input, globals, globals));
  if (globals != nullptr) PyDict_Clear(globals);  // the functions refer to it
  Py_XDECREF(look);
  Py_XDECREF(globals);
  PyErr_Restore(type, value, traceback);
  return g_known;
}

size_t RunningFrames(RunningFrame* frames, size_t most) {
  size_t count = 0;
  for (InterpreterFrame* frame = Innermost(); frame != nullptr; frame = FirstBegun(PreviousFrame(frame))) {
    if (count < most) frames[count] = {CodeOf(frame), PositionOf(frame)};
    ++count;
  }
  return count;
}

PyObject* GlobalsOf(size_t index) {
  const InterpreterFrame* frame = Innermost();
  for (; frame != nullptr && index > 0; --index) frame = FirstBegun(PreviousFrame(frame));
  return frame == nullptr ? nullptr : frame->f_globals;
}

PyObject* ArgumentOf(std::string_view function, std::string_view file, std::string_view parameter) {
  for (const InterpreterFrame* frame = Innermost(); frame != nullptr; frame = FirstBegun(PreviousFrame(frame))) {
    const PyCodeObject* const code = CodeOf(frame);
    if (!TextIs(code->co_name, function) || !IsText(code->co_filename) || !PyUnicode_IS_ASCII(code->co_filename))
      continue;
    if (!AsciiText(code->co_filename).ends_with(file)) continue;
    for (Py_ssize_t i = 0; i < code->co_argcount; ++i) {
      if (TextIs(LocalName(code, i), parameter)) return LocalOf(frame, i);
    }
  }
  return nullptr;
}

int LineOf(const RunningFrame& frame) {
  const int line = PyCode_Addr2Line(frame.code, frame.position * static_cast<int>(sizeof(_Py_CODEUNIT)));
  return std::max(line, 0);
}

}  // namespace torchtrace
