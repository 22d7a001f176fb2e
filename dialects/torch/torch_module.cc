#include "dialects/torch/torch_module.h"

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dialects/python/setattr/frame_evaluation.h"
#include "dialects/torch/common/api_names.h"
#include "dialects/torch/common/compile_contexts.h"
#include "dialects/torch/common/compiled_graphs.h"
#include "dialects/torch/common/process_rank.h"
#include "dialects/torch/common/thread_starts.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/nan_stop.h"
#include "dialects/torch/describe/object_numbers.h"
#include "dialects/torch/describe/operator_plan.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "dialects/torch/device_times/device_times_hook.h"
#include "dialects/torch/dispatch/torch_dispatch_hook.h"
#include "dialects/torch/frame/module_calls.h"
#include "dialects/torch/function/torch_function_hook.h"
#include "dialects/torch/memory/memory_hook.h"
#include "dialects/torch/memory/parameters.h"
#include "dialects/torch/record/record_function_hook.h"
#include "dialects/torch/setattr/setattr_level.h"
#include "nlohmann/json.hpp"
#include "serialize/model/levels.h"
#include "serialize/trace/run_facts.h"
#include "tracer/python/import_watch.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/export.h"

namespace torchtrace {
namespace {

using namespace torch_dialect;  // NOLINT: this file is its face to the runtime

PyObject* Wrap(PyObject*, PyObject* of) { return WrapForCompiling(of); }

PyMethodDef g_wrap = {"wrap", Wrap, METH_VARARGS, nullptr};

// Those of MODULES, CACHES, LIBRARIES and PACKAGES in compile_watch.py.
constexpr const char* kCompilingModules[] = {
    "torch._dynamo.backends.common",
    "torch._dynamo.callback",
    "torch._dynamo.convert_frame",
    "torch._export",
    "torch._functorch._aot_autograd.aot_autograd_result",
    "torch._functorch._aot_autograd.autograd_cache",
    "torch._functorch._aot_autograd.runtime_wrappers",
    "torch._inductor.package.package",
    "torch.export.pt2_archive._package",
};

// Called after the module's import.
void WatchCompiling(const char* name) {
  PyObject* const module = ImportedModule(name);
  PyObject* const wrap = PyCFunction_New(&g_wrap, nullptr);
  PyObject* const args = module == nullptr || wrap == nullptr ? nullptr : PyTuple_Pack(2, module, wrap);
  PyObject* const done = args == nullptr ? nullptr : CallPythonSource("compile_watch", "watch", args);
  if (done == nullptr) {
    PyErr_Clear();
    Recorder::Get()->NoteNotSeen("torch.compile could not be watched: what PyTorch calls to compile is recorded too");
  }
  Py_XDECREF(done);
  Py_XDECREF(args);
  Py_XDECREF(wrap);
}

// Whether Dynamo has compiled code, perhaps before this session: it won't be compiled again.
bool SomethingIsCompiled() {
  PyObject* const module = ImportedModule("torch._dynamo.convert_frame");
  PyObject* const codes = module == nullptr ? nullptr : PyObject_GetAttrString(module, "output_codes");
  PyObject* const seen = codes == nullptr ? nullptr : PyObject_GetAttrString(codes, "seen");
  const bool some = seen != nullptr && PyList_Check(seen) && PyList_GET_SIZE(seen) > 0;
  PyErr_Clear();
  Py_XDECREF(seen);
  Py_XDECREF(codes);
  return some;
}

// An attribute's text, or "" where there is none.
std::string Text(PyObject* object, const char* name) {
  PyObject* const value = object == nullptr ? nullptr : PyObject_GetAttrString(object, name);
  const std::string text = TextOf(value);
  PyErr_Clear();
  Py_XDECREF(value);
  return text;
}

void AddTorchMetadata(Recorder* recorder) {
  PyObject* const torch = ImportedModule("torch");
  PyObject* const version = torch == nullptr ? nullptr : PyObject_GetAttrString(torch, "version");
  nlohmann::json json;
  for (const auto& [key, attribute] : {std::pair("version", "__version__"), std::pair("git", "git_version"),
                                       std::pair("cuda", "cuda"), std::pair("hip", "hip")}) {
    if (std::string text = Text(version, attribute); !text.empty()) json["packages"]["torch"][key] = std::move(text);
  }
  PyErr_Clear();
  Py_XDECREF(version);
  recorder->AddMetadata(json.dump());
}

// `apis coverage --list aten` needs the operators that could have been called.
void AddOperators(Recorder* recorder) {
  PyObject* const c = ImportedModule("torch._C");
  PyObject* const names = c == nullptr ? nullptr : PyObject_CallMethod(c, "_dispatch_get_all_op_names", nullptr);
  if (names != nullptr && PyList_Check(names)) {
    std::vector<std::string> operators;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i) operators.push_back(TextOf(PyList_GET_ITEM(names, i)));
    const nlohmann::json json = {{"operators", FormatOperators(std::move(operators))}};
    recorder->AddOwnMetadata(json.dump());
  }
  PyErr_Clear();
  Py_XDECREF(names);
}

// Records which numbers of objects (docs/VALUES.md) belong to objects that existed before the session, and which
// objects still live at its end: the inputs and results of the traced part of a program.
class ObjectsHook final : public TracingHook {
 public:
  explicit ObjectsHook(int level) : level_(level) {}

  int level() const override { return level_; }
  std::string name() const override { return "objects that were there before"; }
  absl::Status Install() override {
    before_ = NumberTensorsOfPython();
    if (before_.has_value()) {
      const nlohmann::json json = {{"objects", {{"before", *before_}}}};
      Recorder::Get()->AddMetadata(json.dump());
    }
    return absl::OkStatus();
  }
  void Uninstall() override {
    if (!before_.has_value()) return;
    std::vector<uint64_t> ranges;  // first, last, first, last, ...
    for (const uint64_t number : LivingNumbers(*std::exchange(before_, std::nullopt))) {
      if (!ranges.empty() && ranges.back() + 1 == number) {
        ranges.back() = number;
      } else {
        ranges.insert(ranges.end(), {number, number});
      }
    }
    const nlohmann::json json = {{"objects", {{"living", ranges}}}};
    Recorder::Get()->AddOwnMetadata(json.dump());
  }

 private:
  const int level_;
  std::optional<uint64_t> before_;
};

class Module final : public TorchModule {
 public:
  absl::Status CreateHooks(Recorder* recorder, const RecordingOptions& options, const TorchVersion& torch,
                           std::vector<std::unique_ptr<TracingHook>>* hooks) override {
    if (!InitDescribePython() || !WatchThreadStarts()) {
      PyErr_Clear();
      return absl::InternalError("this torch is not as expected: types are missing or have another layout");
    }
    AddTorchMetadata(recorder);
    AddOperators(recorder);
    // `export et` writes the operators' schemas.
    Recorder::SetSchemaOf(SchemaTextOf);
    static bool watched = false;
    if (!watched) {
      for (const char* name : kCompilingModules) {
        if (absl::Status status = WatchImport(name, [name] { WatchCompiling(name); }); !status.ok()) return status;
      }
      watched = true;
    }
    if (absl::Status status = WatchProcessRank(); !status.ok()) return status;
    if (SomethingIsCompiled()) NoteCompiledCode();
    if (!StartMarkingGraphs()) {
      PyErr_Clear();
      recorder->NoteNotSeen("torch.compile: runs of graphs that were compiled before");
    }
    hooks->push_back(std::make_unique<TensorNotesHook>(options.levels.front(), options));
    if (options.device_times) hooks->push_back(std::make_unique<DeviceTimesHook>(options.levels.front()));
    if (options.ids) hooks->push_back(std::make_unique<ObjectsHook>(options.levels.front()));
    if (options.memory) hooks->push_back(std::make_unique<MemoryHook>(options.levels.front(), torch));
    const auto wanted = [&](int level) {
      return std::find(options.levels.begin(), options.levels.end(), level) != options.levels.end();
    };
    for (const int level : {kFunctionLevel, kSetattrLevel, kFrameLevel}) {
      if (!wanted(level) || !python_dialect::NeedsFrameEvaluation(level)) continue;
      if (level == kFrameLevel && !options.traces_python_frames()) continue;
      hooks->push_back(std::make_unique<python_dialect::FrameSlotHook>(level, "torch._C._dynamo.eval_frame"));
      break;
    }
    if (wanted(kFunctionLevel)) hooks->push_back(std::make_unique<TorchFunctionHook>(torch, options.include_getters));
    // Only modules need the nodes; level 4 has them itself.
    const bool marks_nodes = wanted(kFrameLevel) && !wanted(kRecordLevel);
    if (wanted(kDispatchLevel)) hooks->push_back(std::make_unique<TorchDispatchHook>(marks_nodes));
    if (wanted(kDispatchLevel)) hooks->push_back(std::make_unique<ForeignThreadsHook>());
    if (wanted(kDispatchLevel) && !wanted(kFunctionLevel)) hooks->push_back(std::make_unique<ArmingHook>(torch));
    if (wanted(kSetattrLevel)) hooks->push_back(MakeSetattrHook(torch, options));
    if (wanted(kRecordLevel)) hooks->push_back(std::make_unique<RecordFunctionHook>(options));
    if (wanted(kFrameLevel)) hooks->push_back(std::make_unique<ModuleCallsHook>(DescribePython));
    g_module_under_way = wanted(kFrameLevel) ? &ModuleUnderWay : nullptr;
    return absl::OkStatus();
  }

  void NoteParameters(PyObject* object) override { NoteParametersOf(object); }

  std::string NameOf(PyObject* callable) override { return ApiNames::Loaded()->Resolve(callable).name; }
};

}  // namespace
}  // namespace torchtrace

extern "C" TORCHTRACE_EXPORT torchtrace::TorchModule* torchtrace_torch_module() {
  static torchtrace::Module module;
  return &module;
}
