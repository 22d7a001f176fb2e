#include "dialects/torch/common/compiled_graphs.h"

#include <filesystem>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "dialects/python/describe/object_names.h"
#include "dialects/torch/common/compile_contexts.h"
#include "dialects/torch/describe/tensor_numbers.h"
#include "serialize/base/text.h"
#include "serialize/model/config_builder.h"
#include "serialize/model/graph_calls.h"
#include "serialize/model/levels.h"
#include "tracer/cpython/frames.h"
#include "tracer/cpython/objects.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

// The GIL guards everything below.

// In which the program was when the session began, with a slash; files are recorded without it, as at level 3.
std::string& Folder() {
  static auto* const folder = new std::string();
  return *folder;
}

// A function that runs a graph, and the call as which that is recorded; or one that makes such functions.
struct GraphFunction {
  std::string call;
  uint32_t identity_bytes = 0;
  vectorcallfunc original = nullptr;
  uint32_t version = 0;
  bool package = false;  // of AOTInductor
};

// By the functions' addresses. A new function at an old address has CPython's `vectorcall`, so it never gets here
// before it is watched itself.
std::unordered_map<PyObject*, GraphFunction>& Functions() {
  static auto* const functions = new std::unordered_map<PyObject*, GraphFunction>();
  return *functions;
}

// The last graph with each number, for its backward graph.
std::unordered_map<std::string, CompiledGraph>& Graphs() {
  static auto* const graphs = new std::unordered_map<std::string, CompiledGraph>();
  return *graphs;
}

void Describe(GraphCallKind kind, const CompiledGraph& graph, std::string_view reason, ConfigBuilder* config) {
  const auto text = [config](const char* name, std::string_view value) {
    config->Keyword(name);
    config->values().String(KeptText(value), value.size());
  };
  config->Begin(ConfigBuilder::EncodeHead(kFrameLevel, GraphCallApi(kind, graph.id, graph.function)));
  config->Positional(0);
  config->Keywords((graph.file.empty() ? 0 : 2) + (reason.empty() ? 0 : 1));
  if (!graph.file.empty()) {
    text("file", graph.file);
    config->Keyword("line");
    config->values().Int(graph.line);
  }
  if (!reason.empty()) text("reason", reason);
}

bool Enter(GraphCallKind kind, const CompiledGraph& graph, std::string_view reason = {}) {
  return t_thread.Enter([&](ConfigBuilder* config) { Describe(kind, graph, reason, config); });
}

void Leave(PyObject* exception) {
  exception == nullptr ? t_thread.Leave() : t_thread.Raise(TypeName(reinterpret_cast<PyTypeObject*>(exception)));
}

PyObject* RunGraph(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  const GraphFunction& graph = Functions().find(function)->second;
  const bool recorded = t_thread.EnterKnown(graph.call, graph.identity_bytes);
  if (recorded && graph.package) {
    g_kernels_are_fused.store(true, std::memory_order_relaxed);
    Recorder::Get()->NoteNotSeen(
        "AOTInductor: the kernels of its packages, and most operators, which they call without PyTorch's dispatcher");
  }
  PyObject* const result = graph.original(function, arguments, flags, names);
  if (recorded) Leave(result == nullptr ? PyErr_Occurred() : nullptr);
  return result;
}

// Has calls of the Python function go to `call`. Null: they do already.
GraphFunction* Intercept(PyObject* callable, vectorcallfunc call) {
  auto* const function = reinterpret_cast<PyFunctionObject*>(callable);
  if (function->vectorcall == call) return nullptr;
  GraphFunction& entry = Functions()[callable] = {.original = function->vectorcall};
  function->vectorcall = call;
  HideFromSpecialization(function, &entry.version, [](uint32_t* place, uint32_t number) { *place = number; });
  return &entry;
}

void WatchRuns(PyObject* callable, GraphCallKind kind, const CompiledGraph& graph) {
  if (!PyFunction_Check(callable)) {
    Recorder::Get()->NoteNotSeen("torch.compile: runs of graphs that a backend made callable objects of");
    return;
  }
  GraphFunction* const entry = Intercept(callable, RunGraph);
  if (entry == nullptr) return;
  ConfigBuilder config;
  Describe(kind, graph, {}, &config);
  entry->call = config.Finish();
  entry->identity_bytes = config.identity_bytes();
}

CompiledGraph GraphOf(std::string id, PyObject* code) {
  const auto* const of = reinterpret_cast<PyCodeObject*>(code);
  const std::string file = TextOf(of->co_filename);
  return {std::move(id), TextOf(of->co_name), std::string(ShortSourcePath(file, Folder())), of->co_firstlineno};
}

// Dynamo's number of what the context compiles; empty: none.
std::string IdOf(PyObject* context) {
  PyObject* const id = context == nullptr ? nullptr : PyObject_GetAttrString(context, "compile_id");
  PyObject* const text = id == nullptr || id == Py_None ? nullptr : PyObject_Str(id);
  std::string result = TextOf(text);
  Py_XDECREF(text);
  Py_XDECREF(id);
  PyErr_Clear();
  return result;
}

// The code that the running function of Dynamo's compiles; borrowed, null if it is another function.
PyObject* CompiledCode() {
  PyObject* code = nullptr;
  bool compiles = false;
  const InterpreterFrame* const frame = InnermostFrame(PyThreadState_Get());
  if (frame == nullptr) return nullptr;
  const PyCodeObject* const running = CodeOf(frame);
  for (Py_ssize_t i = 0; i < running->co_nlocals; ++i) {
    PyObject* const name = LocalName(running, i);
    if (PyUnicode_CompareWithASCIIString(name, "compile_id") == 0) compiles = LocalOf(frame, i) != nullptr;
    if (PyUnicode_CompareWithASCIIString(name, "code") == 0) code = LocalOf(frame, i);
  }
  return compiles && code != nullptr && PyCode_Check(code) ? code : nullptr;
}

PyObject* Call(const char* function, PyObject* args) {
  PyObject* const result = args == nullptr ? nullptr : CallPythonSource("compile_watch", function, args);
  Py_XDECREF(args);
  return result;
}

PyObject* ConvertFrame() { return ImportedModule("torch._dynamo.convert_frame"); }
PyObject* DynamoUtils() { return ImportedModule("torch._dynamo.utils"); }

void NoteUnexpected() {
  PyErr_Clear();
  Recorder::Get()->NoteNotSeen("torch.compile: why it compiled, and runs of some graphs: this torch isn't as expected");
}

}  // namespace

std::unique_ptr<Compilation> Compilation::Begin(PyObject* context, bool backward) {
  if (t_thread.suspended != 0) return nullptr;
  auto begun = std::make_unique<Compilation>();
  std::string id = IdOf(context);
  if (id.empty()) return nullptr;
  if (backward) {
    begun->graph_ = Graphs()[id];
    begun->graph_.id = std::move(id);
  } else {
    PyObject* const code = CompiledCode();
    if (code == nullptr) return nullptr;
    begun->graph_ = GraphOf(std::move(id), code);
    Graphs()[begun->graph_.id] = begun->graph_;
    begun->code_ = Py_NewRef(code);
    PyObject* const count = DynamoUtils() == nullptr ? nullptr : Call("count_breaks", PyTuple_Pack(1, DynamoUtils()));
    begun->breaks_ = count == nullptr ? -1 : PyLong_AsSsize_t(count);
    Py_XDECREF(count);
    if (count == nullptr) NoteUnexpected();
  }
  begun->recorded_ = Enter(backward ? GraphCallKind::kBackwardCompilation : GraphCallKind::kCompilation, begun->graph_);
  return begun;
}

void Compilation::End(PyObject* exception) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const convert_frame = ConvertFrame();
  if (code_ != nullptr && breaks_ >= 0 && convert_frame != nullptr && DynamoUtils() != nullptr) {
    ++t_thread.suspended;
    PyObject* const made =
        Call("finished", Py_BuildValue("(OOOsn)", convert_frame, DynamoUtils(), code_, graph_.id.c_str(), breaks_));
    --t_thread.suspended;
    PyObject *functions, *breaks;
    const char* reason;
    if (made == nullptr || !PyArg_ParseTuple(made, "O!sO!", &PyList_Type, &functions, &reason, &PyList_Type, &breaks)) {
      NoteUnexpected();
    } else {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(functions); ++i) {
        WatchRuns(PyList_GET_ITEM(functions, i), GraphCallKind::kRun, graph_);
      }
      if (recorded_ && *reason != '\0' && Enter(GraphCallKind::kRecompiled, graph_, reason)) t_thread.Leave();
      for (Py_ssize_t i = 0; recorded_ && i < PyList_GET_SIZE(breaks); ++i) {
        CompiledGraph at = graph_;
        const char *why, *file;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(breaks, i), "ssi", &why, &file, &at.line)) {
          NoteUnexpected();
          continue;
        }
        at.file = ShortSourcePath(file, Folder());
        if (Enter(GraphCallKind::kBreak, at, why)) t_thread.Leave();
      }
    }
    Py_XDECREF(made);
  }
  PyErr_Restore(type, value, traceback);
  if (recorded_) Leave(exception);
}

bool MakesBackwardGraph() {
  const InterpreterFrame* const frame = InnermostFrame(PyThreadState_Get());
  if (frame == nullptr) return false;
  return PyUnicode_CompareWithASCIIString(CodeOf(frame)->co_name, "_wrapped_bw_compiler") == 0;
}

void WatchBackwardRuns(PyObject* function) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* const guards = ImportedModule("torch._guards");
  PyObject* const maker = guards == nullptr ? nullptr : PyObject_GetAttrString(guards, "CompileContext");
  PyObject* const context = maker == nullptr ? nullptr : PyObject_CallMethod(maker, "try_get", nullptr);
  PyErr_Clear();
  if (const std::string id = context == Py_None ? "" : IdOf(context); !id.empty()) {
    CompiledGraph graph = Graphs()[id];
    graph.id = id;
    WatchRuns(function, GraphCallKind::kBackwardRun, graph);
  }
  Py_XDECREF(context);
  Py_XDECREF(maker);
  PyErr_Restore(type, value, traceback);
}

void WatchPackageRuns(PyObject* function) {
  WatchRuns(function, GraphCallKind::kRun, {.id = "AOTInductor"});
  if (const auto found = Functions().find(function); found != Functions().end()) found->second.package = true;
}

void WatchLibraryLoads(PyObject* function) {
  const auto load = [](PyObject* of, PyObject* const* arguments, size_t flags, PyObject* names) -> PyObject* {
    PyObject* const loaded = Functions().find(of)->second.original(of, arguments, flags, names);
    if (loaded != nullptr) WatchPackageRuns(loaded);
    return loaded;
  };
  if (PyFunction_Check(function)) Intercept(function, load);
}

bool StartMarkingGraphs() {
  std::error_code error;
  Folder() = std::filesystem::current_path(error).string();
  if (!Folder().empty() && Folder().back() != '/') Folder() += '/';
  PyObject* const eval_frame = ImportedModule("torch._C._dynamo.eval_frame");
  if (eval_frame == nullptr || ConvertFrame() == nullptr) return true;
  PyObject* const graphs = Call("made_before", PyTuple_Pack(2, ConvertFrame(), eval_frame));
  if (graphs == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(graphs); ++i) {
    PyObject *function, *code;
    const char* id;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(graphs, i), "OsO!", &function, &id, &PyCode_Type, &code)) break;
    const CompiledGraph graph = GraphOf(id, code);
    Graphs()[graph.id] = graph;
    WatchRuns(function, GraphCallKind::kRun, graph);
  }
  Py_DECREF(graphs);
  return PyErr_Occurred() == nullptr;
}

}  // namespace torchtrace::torch_dialect
