#include "dialects/torch/function/torch_function_hook.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dialects/python/describe/argument_form.h"
#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/recorded_calls.h"
#include "dialects/python/setattr/running_calls.h"
#include "dialects/torch/common/api_names.h"
#include "dialects/torch/common/thread_starts.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/operator_plan.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "dialects/torch/describe/tensor_numbers.h"
#include "serialize/base/version_spans.h"

namespace torchtrace::torch_dialect {
namespace {

// An array of lines, since no string literal may be so long.
constexpr std::string_view kTable[] = {
#include "dialects/torch/function/function_protocol.inc"
};

// Removes the text before `separator`, and the separator, and returns the text; all of it if there is no separator.
std::string_view Cut(std::string_view* text, char separator) {
  const std::string_view part = text->substr(0, text->find(separator));
  text->remove_prefix(std::min(part.size() + 1, text->size()));
  return part;
}

}  // namespace

std::vector<HandedOn> FunctionProtocol(const TorchVersion& torch) {
  std::vector<HandedOn> rows;
  for (std::string_view line : std::span(kTable).subspan(1)) {
    if (!IsAmong(Cut(&line, '\t'), torch)) continue;
    const std::string_view function = Cut(&line, '\t');
    const std::string_view told = Cut(&line, '\t');
    rows.push_back({function, told, line});
  }
  return rows;
}

struct OpenFunction {
  bool open = false;      // the thread is inside a call of level 1: what that calls is not recorded
  bool recorded = false;  // and that call was recorded
  Elements results = Elements::kReturned;
  // What a running backward pass interrupted: what the pass calls of Python is recorded again.
  OpenFunction* interrupted = nullptr;
};
constinit thread_local OpenFunction t_function TORCHTRACE_STATIC_TLS;

namespace {

using python_dialect::ArgumentForm;
using python_dialect::CallArguments;
using python_dialect::EndCall;
using python_dialect::EntryDialect;
using python_dialect::EntryOptions;
using python_dialect::NativeEntries;
using python_dialect::TracedApi;

// Whether PyTorch traces the program, on tensors without contents: most of the Python that it then calls is its own.
bool TracesGraph() {
  using Modes = c10::impl::TorchDispatchModeTLS;
  for (int8_t key = 0; key < static_cast<int8_t>(c10::impl::TorchDispatchModeKey::NUM_MODE_KEYS); ++key) {
    if (Modes::get_mode(static_cast<c10::impl::TorchDispatchModeKey>(key)).has_value()) return true;
  }
  return false;
}

// False in a backward pass on a thread that C++ made: autograd gives it the levels of the thread that called it.
bool Arm() {
  if (ThisThreadIsArmed()) return true;
  if (torch::autograd::get_current_graph_task_id() != -1) return false;
  ArmThisThread();
  return true;
}

// False: a mode of the program receives the call first. If that calls the function again, then it is recorded.
// A template, so that members that this torch lacks are not compiled: before 2.13 no call is skipped.
template <typename Stack>
bool NoModeIsFirst() {
  if constexpr (requires { Stack::peek_skip_next(); }) {
    if (Stack::peek_skip_next()) return false;
  }
  return Stack::stack_len() == 0 || Stack::get_disabled_state() == at::impl::ALL_DISABLED;
}

// False: out of memory, which must not be thrown through Python's C code.
bool BeginBackward() {
  auto* const interrupted = new (std::nothrow) OpenFunction(t_function);
  if (interrupted == nullptr) {
    Recorder::Get()->Stop(kNoMemory);
    return false;
  }
  t_function = {.interrupted = interrupted};
  return true;
}

void EndBackward() {
  const std::unique_ptr<OpenFunction> interrupted(t_function.interrupted);
  t_function = *interrupted;
}

void EndFunction(PyObject* result) {
  if (!t_function.open) [[unlikely]] {
    return EndBackward();
  }
  t_function.open = false;
  const Elements results = std::exchange(t_function.results, Elements::kReturned);
  if (!t_function.recorded) return;
  EndCall(result, [results](PyObject* value, ConfigBuilder* config) {
    config->SetElements(results);
    DescribePython(value, config);
  });
}

PyObject* FirstOf(const CallArguments& arguments) {
  if (arguments.self != nullptr) return arguments.self;
  return arguments.count == 0 ? nullptr : arguments.positional[0];
}

PyObject* OutputOf(const CallArguments& arguments) {
  constexpr std::string_view kOutput = "out";
  if (arguments.keywords != nullptr) return FindInDict(arguments.keywords, kOutput);
  for (Py_ssize_t i = 0; arguments.names != nullptr && i < PyTuple_GET_SIZE(arguments.names); ++i) {
    if (TextIs(PyTuple_GET_ITEM(arguments.names, i), kOutput)) return arguments.positional[arguments.count + i];
  }
  return nullptr;
}

// Level 2 sees what happens to memory. Without it, the names of functions tell.
bool TracksMemory() { return NumbersAreWanted() && !g_reads_are_kept.load(std::memory_order_relaxed); }

// Of a call whose arguments were described; returns what its results are.
Elements TrackMemory(MemoryUse use, const CallArguments& arguments) {
  if (PyObject* const output = OutputOf(arguments)) CountPythonAsWritten(output);
  switch (use) {
    case MemoryUse::kUnknown:
    case MemoryUse::kWaits:
      break;
    case MemoryUse::kAllocates:
      return Elements::kAllocated;
    case MemoryUse::kMayAllocate:
      if (std::all_of(arguments.positional, arguments.positional + arguments.count, IsSize))
        return Elements::kAllocated;
      break;
    case MemoryUse::kMakesNewView:
      return Elements::kNewView;
    case MemoryUse::kWrites:
      if (PyObject* const first = FirstOf(arguments)) CountPythonAsWritten(first);
      break;
  }
  return Elements::kReturned;
}

// has_torch_function, has_torch_function_unary, has_torch_function_variadic
constexpr std::string_view kAsks = "torch._C._has_torch_function";

constexpr char kHandler[] = "torch.overrides.handle_torch_function";
constexpr char kHandlerName[] = "handle_torch_function";

// In the column `told` (torch_function_hook.h): the function calls no mode.
constexpr std::string_view kNobody = "nobody";

// Entered to arm threads but not recorded: a thread may call operators only inside these.
constexpr const char* kScripted[] = {"torch._C.ScriptFunction.__call__", "torch._C.ScriptMethod.__call__"};

// All backward passes that Python code starts go through this.
constexpr char kRunsBackward[] = "torch._C._ImperativeEngine.run_backward";

// The program's own functions that call has_torch_function and then handle_torch_function. A mode sees such a call from
// its has_torch_function on, and none that doesn't call that; so that is what is recorded.
class ProgramFunctions {
 public:
  static void Asked(const TracedApi& question, const CallArguments& arguments) {
    python_dialect::RunningCall call;
    if (IsOfNothing(question, arguments) || !python_dialect::InnermostCall(&call)) return;
    PyObject* const function = call.Function();
    if (function == nullptr) return;
    const Api& api = ApiNames::Loaded()->Resolve(function);
    t_function.open = true;
    t_function.recorded = t_thread.Enter([&](ConfigBuilder* config) {
      python_dialect::DescribeRunningCall(
          api.head, function, [&](Py_ssize_t i) { return call.Local(i); }, config,
          [config](PyObject* value) { DescribePython(value, config); });
    });
    python_dialect::WhenInnermostCallEnds(EndFunction);
  }

 private:
  // Nothing overrides a call without arguments, and no mode receives it.
  static bool IsOfNothing(const TracedApi& question, const CallArguments& arguments) {
    if (question.name != kAsks || arguments.count != 1) return arguments.count == 0;
    PyObject* const sequence = arguments.positional[0];
    return (PyTuple_Check(sequence) || PyList_Check(sequence)) && Py_SIZE(sequence) == 0;
  }
};

class FunctionCalls final : public python_dialect::RecordedCalls<DescribePython, AddPythonToKey> {
 public:
  explicit FunctionCalls(const TorchVersion& torch) : rows_(Rows(torch)) {}

  bool Begin(const TracedApi& api, const CallArguments& arguments) override {
    if (t_function.open || t_thread.suspended != 0) return CallsBack(api);
    if (!Arm() && TracesGraph()) return false;
    if (api.kind != Kind::kCall) return BeginOther(api, arguments);
    if (!NoModeIsFirst<Modes>()) return false;
    if (api.getter && !include_getters) {
      t_thread.CountGetter();
      // What the getter calls is still inside it.
      t_function.open = true;
      t_function.recorded = false;
      return true;
    }
    // If the program has replaced the function's code, the new code calls modes itself, if at all.
    if (api.form != nullptr && !api.form->IsOf(api.object)) return false;
    ArgumentForm::Bound bound;
    const bool formed = api.form != nullptr && api.form->Bind(api.object, arguments, &bound);
    if (formed && !api.form->HandsOn(bound, IsPlainTensorType)) return false;
    t_function.open = true;
    if (api.first_argument != 0) {
      t_function.recorded = RecordCallOf(arguments, api.first_argument);
    } else {
      t_function.recorded = formed ? RecordForm(api, bound) : Record(api.head, arguments);
      Track(api, arguments);
    }
    return true;
  }

  void End(PyObject* result) override { EndFunction(result); }

  // Begin counts them.
  void CountGetter() override {}

  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    if (const Kind kind = KindOf(name); kind != Kind::kCall) {
      if (kind == Kind::kUntold && IsOfProgram(object)) return nullptr;
      TracedApi* const api = MakeApi(name, object);
      api->kind = kind;
      return api;
    }
    if (name == kHandler) {
      TracedApi* const api = python_dialect::MakeTracedApi(kFunctionLevel, name, object);
      api->first_argument = 2;  // after the function and the arguments that may override it
      return api;
    }
    const auto row = rows_.find(name);
    if (row == rows_.end() || IsOfProgram(object)) return nullptr;
    const HandedOn& handed_on = row->second;
    TracedApi* const api = MakeApi(ToldName(handed_on, object), object);
    if (handed_on.told == "self") api->first_argument = 1;
    // Modes know a function by one name alone, so the form is the function's for ever.
    if (api->form == nullptr && !handed_on.form.empty()) {
      api->form = ArgumentForm::Parse(handed_on.form, object).release();
      // A function that takes any keywords passes them on as they are.
      if (api->form == nullptr && handed_on.form.find("**") == std::string_view::npos) {
        NoteNotSeen("level 1: how " + name + " passes its arguments on; they are recorded as written");
      }
    }
    return api;
  }

  const std::unordered_map<std::string, HandedOn>& rows() const { return rows_; }

  bool include_getters = false;

 private:
  using Kind = TracedApi::Kind;
  using Modes = at::impl::PythonTorchFunctionTLS;

  static TracedApi* MakeApi(const std::string& name, PyObject* object) {
    TracedApi* const api = python_dialect::MakeTracedApi(kFunctionLevel, name, object);
    if (TracksMemory()) api->dialects = static_cast<uint8_t>(MemoryUseOf(api->name));
    return api;
  }

  Kind KindOf(const std::string& name) const {
    if (name.starts_with(kAsks)) return Kind::kAsks;
    if (name == kRunsBackward) return Kind::kCallsBack;
    if (std::find(std::begin(kScripted), std::end(kScripted), name) != std::end(kScripted)) return Kind::kArms;
    const auto row = rows_.find(name);
    return row != rows_.end() && row->second.told == kNobody ? Kind::kUntold : Kind::kCall;
  }

  static bool BeginOther(const TracedApi& api, const CallArguments& arguments) {
    if (api.kind == Kind::kAsks && NoModeIsFirst<Modes>()) ProgramFunctions::Asked(api, arguments);
    if (api.kind != Kind::kUntold) return false;
    t_function.open = true;
    t_function.recorded = Record(api.head, arguments);
    Track(api, arguments);
    return true;
  }

  static void Track(const TracedApi& api, const CallArguments& arguments) {
    if (TracksMemory()) t_function.results = TrackMemory(static_cast<MemoryUse>(api.dialects), arguments);
  }

  // Inside another call of this level. Autograd calls hooks, the program's autograd.Functions and recomputed
  // checkpoints, which count as calls of the program.
  static bool CallsBack(const TracedApi& api) {
    if (api.kind != Kind::kCallsBack || !t_function.open || t_thread.suspended != 0 || TracesGraph()) return false;
    return BeginBackward();
  }

  // Whether the program has put this function in the place of PyTorch's. functools.wraps copies everything of the other
  // one except its globals.
  static bool IsOfProgram(PyObject* object) {
    if (!PyFunction_Check(object)) return false;
    PyObject* const module = PyDict_GetItemString(PyFunction_GET_GLOBALS(object), "__name__");
    const std::string name = module == nullptr ? "" : TextOf(module);
    return name != "torch" && !name.starts_with("torch.");
  }

  static bool IsPlainTensorType(PyTypeObject* type) { return type == Py_TYPE(Py_None) || IsTensorType(type); }

  static bool RecordForm(const TracedApi& api, const ArgumentForm::Bound& bound) {
    return Enter([&](auto* call, auto&& describe) { api.form->DescribeCall(api.head, bound, call, describe); });
  }

  static bool RecordCallOf(CallArguments arguments, Py_ssize_t first) {
    if (arguments.count < first || !t_thread.Recording()) return false;
    const torch_dialect::Api& api = ApiNames::Loaded()->Resolve(arguments.positional[0]);
    arguments.positional += first;
    arguments.count -= first;
    const MemoryUse use = NumbersAreWanted() ? MemoryUseOf(api.name) : MemoryUse::kUnknown;
    const WithoutNumbers without(use == MemoryUse::kWaits);
    const bool recorded = Record(api.head, arguments);
    if (TracksMemory()) t_function.results = TrackMemory(use, arguments);
    return recorded;
  }

  // The name of the function that a mode would receive.
  static std::string ToldName(const HandedOn& row, PyObject* object) {
    if (row.told.ends_with("__get__") || row.told.ends_with("__set__")) return std::string(row.told);
    PyObject* told = object;
    if (row.told != row.function) {
      told = python_dialect::FindAttribute(row.told).object;
      if (told == nullptr) return std::string(row.told);
    }
    if (Py_TYPE(told) == &PyStaticMethod_Type) {
      // A member of the C struct, which keeps it alive.
      told = PyObject_GetAttrString(told, "__func__");
      Py_XDECREF(told);
    }
    return ApiNames::Loaded()->Resolve(told).name;
  }

  static std::unordered_map<std::string, HandedOn> Rows(const TorchVersion& torch) {
    std::unordered_map<std::string, HandedOn> rows;
    for (const HandedOn& row : FunctionProtocol(torch)) rows.emplace(row.function, row);
    return rows;
  }

  const std::unordered_map<std::string, HandedOn> rows_;
};

// Never destroyed: calls may be under way when the hook is uninstalled. A process has one torch.
FunctionCalls& Calls(const TorchVersion& torch) {
  static auto* const calls = new FunctionCalls(torch);
  return *calls;
}

class Arming final : public EntryDialect {
 public:
  bool Begin(const TracedApi&, const CallArguments&) override {
    Arm();
    return false;
  }
  void End(PyObject*) override {}
  void CountGetter() override {}
  absl::StatusOr<const TracedApi*> Api(PyObject* object, const std::string& name) override {
    return python_dialect::MakeTracedApi(kFunctionLevel, name, object);
  }
  void NoteNotSeen(const std::string&) override {}
};

// Arming marks Python's threads, to tell autograd's from them.
void ArmNothing() {}

bool IsOfC(const std::string& function) { return function.starts_with("torch._C."); }

}  // namespace

absl::Status TorchFunctionHook::Install() {
  // Before the entries, which are to be called first.
  if (absl::Status status = python_dialect::WatchCalls(kHandlerName); !status.ok()) return status;
  FunctionCalls& calls = Calls(torch_);
  calls.include_getters = include_getters_;
  EntryOptions options;
  options.level = kFunctionLevel;
  options.include_getters = true;  // to count only those that a mode would receive
  for (const auto& [function, row] : calls.rows()) options.names.push_back(function);
  for (const char* form : {"", "_unary", "_variadic"}) options.names.push_back(std::string(kAsks) + form);
  options.names.emplace_back(kHandler);
  options.names.emplace_back(kRunsBackward);
  options.names.insert(options.names.end(), std::begin(kScripted), std::end(kScripted));
  entries_ = std::make_shared<NativeEntries>(&calls, std::move(options));
  if (absl::Status status = entries_->Install(); !status.ok()) {
    python_dialect::UnwatchCalls();
    return status;
  }
  AddThreadArmer(ArmNothing);
  return absl::OkStatus();
}

void TorchFunctionHook::Uninstall() {
  if (entries_ == nullptr) return;
  entries_->Uninstall();
  python_dialect::UnwatchCalls();
  RemoveThreadArmer(ArmNothing);
}

absl::Status ArmingHook::Install() {
  static auto* const arming = new Arming;
  EntryOptions options;
  options.level = kFunctionLevel;
  options.include_getters = true;
  options.names.assign(std::begin(kScripted), std::end(kScripted));
  for (const auto& [function, row] : Calls(torch_).rows()) {
    if (IsOfC(function)) options.names.push_back(function);
  }
  entries_ = std::make_shared<NativeEntries>(arming, std::move(options));
  return entries_->Install();
}

void ArmingHook::Uninstall() {
  if (entries_ != nullptr) entries_->Uninstall();
}

}  // namespace torchtrace::torch_dialect
