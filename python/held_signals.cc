#include "python/held_signals.h"

#include <frameobject.h>
#include <signal.h>

#include <deque>
#include <map>

namespace torchtrace {
namespace {

// So many signals of one moment may raise.
constexpr int kMostRaised = 100;

struct Program {
  std::map<int, PyObject*> handlers;  // of the signals that are held
  // What it has missed: exceptions, and handlers with their signals.
  struct Missed {
    int signal;  // 0: an exception
    PyObject* object;
  };
  std::deque<Missed> missed;
  PyObject* ours = nullptr;  // a frame that is ours
};
// Only the main thread uses it, with the GIL.
Program& TheProgram() {
  static auto* const program = new Program;
  return *program;
}

void KeepRaised() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (type == nullptr) return;
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  TheProgram().missed.push_back({0, value});
  Py_DECREF(type);
  Py_XDECREF(traceback);
}

// The handler of a signal that is held: (signal, frame).
PyObject* Miss(PyObject*, PyObject* args) {
  int number;
  PyObject* frame;
  if (!PyArg_ParseTuple(args, "iO", &number, &frame)) return nullptr;
  Program& program = TheProgram();
  if (const auto held = program.handlers.find(number); held != program.handlers.end()) {
    program.missed.push_back({number, Py_NewRef(held->second)});
  }
  Py_RETURN_NONE;
}

PyMethodDef g_miss = {"torchtrace_holds", Miss, METH_VARARGS, nullptr};

// signal.signal() calls handlers of signals that wait, and forgets how the system shall treat the signal
// (siginterrupt).
void SetHandler(PyObject* module, int number, PyObject* handler) {
  struct sigaction action;
  if (sigaction(number, nullptr, &action) != 0) return;
  for (int i = 0; i < kMostRaised; ++i) {
    PyObject* const before = PyObject_CallMethod(module, "signal", "iO", number, handler);
    if (before != nullptr) {
      Py_DECREF(before);
      break;
    }
    KeepRaised();
  }
  sigaction(number, &action, nullptr);
}

bool RunsOurs() {
  const auto* const ours = reinterpret_cast<PyFrameObject*>(TheProgram().ours);
  if (ours == nullptr) return false;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr && frame != ours) {
    PyFrameObject* const caller = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  Py_XDECREF(frame);
  return frame != nullptr;
}

// A pending call, as one may raise in the program.
int PassOn(void*) {
  std::deque<Program::Missed>& missed = TheProgram().missed;
  if (missed.empty()) return 0;
  if (RunsOurs()) {
    Py_AddPendingCall(PassOn, nullptr);
    return 0;
  }
  Py_CLEAR(TheProgram().ours);
  const Program::Missed next = missed.front();
  missed.pop_front();
  if (!missed.empty()) Py_AddPendingCall(PassOn, nullptr);
  if (next.signal == 0) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(next.object)), next.object);
    Py_DECREF(next.object);
    return -1;
  }
  PyObject* const frame = reinterpret_cast<PyObject*>(PyEval_GetFrame());
  PyObject* const result = PyObject_CallFunction(next.object, "iO", next.signal, frame != nullptr ? frame : Py_None);
  Py_DECREF(next.object);
  Py_XDECREF(result);
  return result != nullptr ? 0 : -1;
}

}  // namespace

void HoldSignals() {
  PyObject* const module = PyImport_ImportModule("_signal");
  PyObject* const miss = PyCFunction_New(&g_miss, nullptr);
  std::map<int, PyObject*>& handlers = TheProgram().handlers;
  for (int number = 1; module != nullptr && miss != nullptr && number < NSIG; ++number) {
    PyObject* const handler = PyObject_CallMethod(module, "getsignal", "i", number);
    if (handler != nullptr && PyCallable_Check(handler) && handlers.emplace(number, handler).second) {
      SetHandler(module, number, miss);
      continue;
    }
    Py_XDECREF(handler);
    if (handler == nullptr) PyErr_Clear();  // no signal has this number
  }
  Py_XDECREF(miss);
  Py_XDECREF(module);
  KeepRaised();
}

void ReleaseSignals(PyObject* raised, PyObject* ours) {
  Program& program = TheProgram();
  for (Py_ssize_t i = PyList_Size(raised); i > 0; --i) {
    program.missed.push_front({0, Py_NewRef(PyList_GetItem(raised, i - 1))});
  }
  PyObject* const module = PyImport_ImportModule("_signal");
  while (!program.handlers.empty()) {
    // A signal that comes from here on is held by the others, or comes as it always did.
    const auto [number, handler] = *program.handlers.begin();
    SetHandler(module, number, handler);
    program.handlers.erase(number);
    Py_DECREF(handler);
  }
  Py_DECREF(module);
  if (program.missed.empty()) return;
  Py_XSETREF(program.ours, Py_XNewRef(ours));
  Py_AddPendingCall(PassOn, nullptr);
}

}  // namespace torchtrace
