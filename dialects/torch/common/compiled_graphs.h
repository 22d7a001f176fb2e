// Marks in a trace what torch.compile does: its compilations, and the runs of the graphs that they make.

#ifndef TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILED_GRAPHS_H_
#define TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILED_GRAPHS_H_

#include <Python.h>

#include <memory>
#include <string>

namespace torchtrace::torch_dialect {

// A graph by Dynamo's number of it, `1/0`, and the Python function of which it was made.
struct CompiledGraph {
  std::string id;
  std::string function;
  std::string file;
  int line = 0;
};

// A compilation under way, which is a call of the trace unless the thread records nothing now. All functions need the
// GIL and keep a Python error that is set.
class Compilation {
 public:
  Compilation() = default;
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() { Py_XDECREF(code_); }

  // `context`: Dynamo's CompileContext. `backward`: of the backward graph of what was compiled before. Null: it is part
  // of another compilation, or not of a function of the program.
  static std::unique_ptr<Compilation> Begin(PyObject* context, bool backward);
  // `exception`: its type; null: none.
  void End(PyObject* exception);

 private:
  CompiledGraph graph_;
  bool recorded_ = false;
  PyObject* code_ = nullptr;  // owned; null: backward
  Py_ssize_t breaks_ = 0;     // that Dynamo had listed before
};

// Whether the running function of PyTorch's makes the function for a backward graph.
bool MakesBackwardGraph();
// From now on, calls of `function` are recorded as runs of the backward graph of what is compiled now.
void WatchBackwardRuns(PyObject* function);

// From now on, calls of `function` are recorded as runs of a package of AOTInductor.
void WatchPackageRuns(PyObject* function);
// The same for the functions that `function` returns.
void WatchLibraryLoads(PyObject* function);

// Call it when a session begins. Also watches the graphs that were compiled before. False with a Python error set:
// Dynamo isn't as expected.
bool StartMarkingGraphs();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_COMMON_COMPILED_GRAPHS_H_
