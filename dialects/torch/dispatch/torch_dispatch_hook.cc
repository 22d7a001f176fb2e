#include "dialects/torch/dispatch/torch_dispatch_hook.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <cxxabi.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dialects/torch/common/compile_contexts.h"
#include "dialects/torch/common/thread_starts.h"
#include "dialects/torch/common/virtual_functions.h"
#include "dialects/torch/describe/describe.h"
#include "dialects/torch/describe/device_notes.h"
#include "dialects/torch/describe/kept_arguments.h"
#include "dialects/torch/describe/nan_stop.h"
#include "dialects/torch/describe/operator_plan.h"
#include "dialects/torch/describe/storage_state.h"
#include "dialects/torch/describe/tensor_elements.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "dialects/torch/dispatch/node_marks.h"
#include "dialects/torch/dispatch/threads_with_key.h"
#include "dialects/torch/dispatch/unboxed_operators.h"
#include "serialize/model/config.h"
#include "serialize/model/record_facts.h"
#include "tracer/python/python_patch.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {
namespace {

constexpr c10::DispatchKeySet kBelowKey(c10::DispatchKeySet::FULL_AFTER, kDispatchKey);

// Whether operators get facts about autograd's nodes.
std::atomic<bool> g_marks_nodes{false};

// What a thread keeps from one call to the next, outside of the little room for thread-local variables.
struct DispatchThread {
  OperatorPlans plans{kDispatchLevel};
  NodeMarks marks;
};
thread_local std::unique_ptr<DispatchThread> t_dispatch;

DispatchThread& OfThisThread() {
  if (t_dispatch == nullptr) [[unlikely]]
    t_dispatch = std::make_unique<DispatchThread>();
  return *t_dispatch;
}

// A call whose arguments are the last ones on `stack`. Returns its plan; a key has none before the first description.
template <typename Call>
const OperatorPlan* DescribeBoxedCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack, Call* call) {
  const OperatorPlan* plan;
  if constexpr (std::is_same_v<Call, CallKey>) {
    plan = t_dispatch == nullptr ? nullptr : t_dispatch->plans.Find(op.schema());
    if (plan == nullptr) return call->Fail(), nullptr;
  } else {
    plan = &OfThisThread().plans.Get(op.schema());
  }
  DescribeOperatorCall(*plan, stack.data() + (stack.size() - plan->arguments.size()), call);
  return plan;
}

// The Python name of the exception in flight. Call it in a catch block.
std::string ExceptionName() {
  try {
    throw;
  } catch (const python_error& error) {
    const pybind11::gil_scoped_acquire gil;
    // Without a type, the error is still Python's current one.
    PyObject* const type = error.type == nullptr ? PyErr_Occurred() : error.type;
    return type == nullptr ? "RuntimeError" : TypeName(reinterpret_cast<PyTypeObject*>(type));
  } catch (const pybind11::error_already_set& error) {
    const pybind11::gil_scoped_acquire gil;
    return TypeName(reinterpret_cast<PyTypeObject*>(error.type().ptr()));
  } catch (const c10::IndexError&) {
    return "IndexError";
  } catch (const c10::ValueError&) {
    return "ValueError";
  } catch (const c10::TypeError&) {
    return "TypeError";
  } catch (const c10::NotImplementedError&) {
    return "NotImplementedError";
  } catch (const c10::LinAlgError&) {
    return "torch._C._LinAlgError";
  } catch (const c10::OutOfMemoryError&) {
    return "torch.OutOfMemoryError";
  } catch (...) {
    return "RuntimeError";  // what PyTorch makes of every other C++ exception
  }
}

template <typename Result>
void DescribeResults(const OperatorPlan& plan, bool under_way, const Result& result, ConfigBuilder* config) {
  ResultDescriber(plan, 1, under_way, config).Add(result);
}
template <typename... Results>
void DescribeResults(const OperatorPlan& plan, bool under_way, const std::tuple<Results...>& results,
                     ConfigBuilder* config) {
  ResultDescriber describer(plan, sizeof...(Results), under_way, config);
  std::apply([&describer](const auto&... result) { (describer.Add(result), ...); }, results);
}
// The boxed results of an operator: the last values on `stack`.
void DescribeResults(const OperatorPlan& plan, bool under_way, const torch::jit::Stack& stack, ConfigBuilder* config) {
  const size_t count = std::min(plan.returns.size(), stack.size());
  ResultDescriber describer(plan, count, under_way, config);
  for (size_t i = stack.size() - count; i < stack.size(); ++i) describer.Add(stack[i]);
}

bool IsElsewhere(const at::Tensor& tensor) {
  return tensor.defined() && PassiveFields::DeviceOf(*tensor.unsafeGetTensorImpl()) != c10::Device(c10::kCPU);
}

template <typename Described>
[[gnu::noinline]] void RecordException(const Described& described) {
  const std::string name = ExceptionName();
  if (!described.DescribesException()) return t_thread.Raise(name);
  t_thread.Raise(name, [&](ConfigBuilder* config) { described.DescribeException(config); });
}

// Of Python's current error.
python_error PersistedError() {
  python_error error;
  error.persist();
  return error;
}

[[noreturn]] void RaiseNan(const NanCall& call) {
  const pybind11::gil_scoped_acquire gil;
  PyErr_SetString(PyExc_FloatingPointError, NanMessage(call).c_str());
  throw PersistedError();
}

// What earlier calls made on GPUs, once its numbers are here.
void RaiseNanThatCame() {
  PollDeviceNotes();
  if (const std::optional<NanCall> call = NextNan()) RaiseNan(*call);
}

// Ends a call that made a NaN, for --stop-on-nan.
class NanStop {
 public:
  // Once the call is entered, and before it is made.
  explicit NanStop(bool recorded) {
    if (recorded && g_stops_on_nan.load(std::memory_order_relaxed)) [[unlikely]]
      call_ =
          std::make_unique<NanCall>(NanCall{t_thread.recorder->LastEntered(), std::exchange(SeenOnThread().taken, {})});
  }

  void BeforeEnd() const {
    if (call_ != nullptr) [[unlikely]]
      SeenOnThread().made = {};
  }
  void AfterEnd(std::string_view head) const {
    if (call_ != nullptr) [[unlikely]]
      RaiseAfterEnd(head);
  }

 private:
  [[gnu::noinline]] void RaiseAfterEnd(std::string_view head) const {
    call_->made = std::exchange(SeenOnThread().made, {});
    call_->api = ReadConfigHead(head).api;
    if (const auto module = g_module_under_way.load(std::memory_order_relaxed)) call_->module = module();
    if (const std::optional<NanCall> made = JudgeNan(std::move(*call_))) RaiseNan(*made);
    RaiseNanThatCame();
  }

  std::unique_ptr<NanCall> call_;  // null: nothing is asked
};

// Records the entry of an operator's call as ThreadState::Enter does.
template <typename Describe>
bool Enter(const Describe& describe) {
  if (g_stops_on_nan.load(std::memory_order_relaxed)) [[unlikely]] {
    if (t_thread.Recording() && !t_thread.describing) RaiseNanThatCame();
    SeenOnThread() = {};
  }
  bool recorded;
  if (g_marks_nodes.load(std::memory_order_relaxed) && t_thread.Recording()) {
    const RecordFacts facts = OfThisThread().marks.Next();
    recorded = t_thread.Enter(describe, &facts);
  } else {
    recorded = t_thread.Enter(describe);
  }
  if (!recorded) {
    PutKeyRight();
    if (NumbersAreWanted()) g_unknown_writes.fetch_add(1, std::memory_order_relaxed);
  }
  return recorded;
}

// A call whose arguments are the last ones on `stack`, which it replaces by its results.
class BoxedCall {
 public:
  BoxedCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack) : op_(op), stack_(stack) {}

  // Once the call is entered.
  void Keep() {
    if (!NumbersAreWanted()) [[likely]]
      return;
    const OperatorPlan& plan = OfThisThread().plans.Get(op_.schema());
    const auto first = stack_.end() - static_cast<ptrdiff_t>(plan.arguments.size());
    if (plan.writes) arguments_.Keep(c10::ArrayRef<c10::IValue>(&*first, plan.arguments.size()));
    if (plan.non_blocking >= 0) {
      const c10::IValue& source = first[static_cast<ptrdiff_t>(plan.source)];
      under_way_ = first[plan.non_blocking].toOptional<bool>().value_or(false) && source.isTensor() &&
                   IsElsewhere(source.toTensor());
    }
  }
  void DescribeEnd(ConfigBuilder* config) const {
    // Calls inside may have removed operators.
    const OperatorPlan& plan = OfThisThread().plans.Get(op_.schema());
    DescribeWritten(plan, &ArgumentPlan::after, config);
    DescribeResults(plan, under_way_, stack_, config);
  }
  std::string_view head() const { return OfThisThread().plans.Get(op_.schema()).head; }
  bool DescribesException() const { return arguments_.size() != 0; }
  void DescribeException(ConfigBuilder* config) const {
    DescribeWritten(OfThisThread().plans.Get(op_.schema()), &ArgumentPlan::after_exception, config);
  }

 private:
  void DescribeWritten(const OperatorPlan& plan, Elements ArgumentPlan::* elements, ConfigBuilder* config) const {
    if (arguments_.size() != plan.arguments.size()) return;
    if (const auto there = arguments_.Lock()) torch_dialect::DescribeWritten(plan, *there, elements, config);
  }

  const c10::OperatorHandle& op_;
  const torch::jit::Stack& stack_;
  KeptArguments arguments_;  // if it writes some of them
  bool under_way_ = false;
};

// Makes a call, and records its end if its entry is `recorded`, as `described` describes it.
template <typename Call, typename Described>
auto RecordEnd(bool recorded, const Described& described, Call&& call) -> decltype(call()) {
  const NanStop nan_stop(recorded);
  try {
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      if (!std::exchange(recorded, false)) return;
      nan_stop.BeforeEnd();
      t_thread.Leave([&](ConfigBuilder* config) { described.DescribeEnd(config); });
      nan_stop.AfterEnd(described.head());
    } else {
      decltype(auto) result = call();
      if (std::exchange(recorded, false)) {
        nan_stop.BeforeEnd();
        t_thread.Leave([&](ConfigBuilder* config) { described.DescribeEnd(result, config); });
        nan_stop.AfterEnd(described.head());
      }
      return result;
    }
  } catch (const abi::__forced_unwind&) {
    // The thread ends in the middle of the call (pthread_exit, cancellation, Python's end): nothing is raised, and a
    // handler must rethrow this.
    throw;
  } catch (...) {
    if (recorded && t_thread.recorder != nullptr) RecordException(described);
    throw;
  }
}

// For a key above Python's: how many recorded operators this thread is inside, with the key turned off.
constinit thread_local int t_inside = 0;

// What an operator of PyTorch calls inside is not recorded, as a dispatch mode doesn't see it.
class Inside {
 public:
  Inside() {
    if constexpr (kAbovePython) ++t_inside;
  }
  ~Inside() {
    if constexpr (kAbovePython) --t_inside;
  }
  Inside(const Inside&) = delete;

 private:
  const KeyTurnedOff off_;
};

// While a mode or a subclass handles a call, PyTorch turns off the keys above Python's for what it calls. This turns
// ours on again, to record that.
class SeenInPython {
 public:
  SeenInPython() : was_off_(kAbovePython && t_inside == 0 && c10::impl::tls_is_dispatch_key_excluded(kDispatchKey)) {
    if (was_off_) c10::impl::tls_set_dispatch_key_excluded(kDispatchKey, false);
  }
  ~SeenInPython() {
    if (was_off_) c10::impl::tls_set_dispatch_key_excluded(kDispatchKey, true);
  }
  SeenInPython(const SeenInPython&) = delete;

 private:
  const bool was_off_;
};

// Whether a call goes to a mode or a subclass, which then calls operators itself.
bool GoesToPython(c10::DispatchKeySet keys) { return kAbovePython && keys.has(c10::DispatchKey::Python); }
// Then the mode's calls are recorded instead.
bool GoesToMode(c10::DispatchKeySet keys) {
  return GoesToPython(keys) && c10::impl::TorchDispatchModeTLS::stack_len() > 0;
}

// An operator that is not PyTorch's is part of the program: what it calls is recorded too.
void Fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (GoesToMode(keys)) return op.redispatchBoxed(keys & kBelowKey, stack);
  bool foreign = false;
  const auto describe = [&](auto* call) {
    const OperatorPlan* const plan = DescribeBoxedCall(op, *stack, call);
    foreign = plan != nullptr && plan->foreign;
  };
  BoxedCall boxed(op, *stack);
  const bool recorded = Enter(describe);
  if (recorded) boxed.Keep();
  RecordEnd(recorded, boxed, [&] {
    if (foreign || GoesToPython(keys)) {
      op.redispatchBoxed(keys & kBelowKey, stack);
    } else {
      const Inside inside;
      op.redispatchBoxed(keys & kBelowKey, stack);
    }
  });
}

// An operator with an unboxed kernel. Never freed: PyTorch's own operators are never deregistered.
struct UnboxedPlan {
  const OperatorPlan* plan;
  const CppArgument* arguments;  // as many as the plan has
};

// `values` points to the arguments, each of its own type. One function for all operators: it stays in the processor's
// caches.
[[gnu::noinline]] bool EnterUnboxed(const UnboxedPlan& unboxed, const void* const* values) {
  return Enter([&](auto* call) {
    auto describer = DescriberOf(*unboxed.plan, call);
    for (size_t i = 0; i < unboxed.plan->arguments.size(); ++i) {
      describer.Add(CppValue{&unboxed.arguments[i], values[i]});
    }
  });
}

// What such a call wrote.
[[gnu::noinline]] void DescribeWritten(const UnboxedPlan& unboxed, const void* const* values,
                                       Elements ArgumentPlan::* elements, ConfigBuilder* config) {
  if (!unboxed.plan->writes || !NumbersAreWanted()) return;
  OperatorCallDescriber describer(*unboxed.plan, config, elements);
  for (size_t i = 0; i < unboxed.plan->arguments.size(); ++i) {
    describer.Add(CppValue{&unboxed.arguments[i], values[i]});
  }
  config->KeepWritten();
}

// Whether the call copies from a device and goes on while that is under way.
bool IsUnderWay(const OperatorPlan& plan, const void* const* values) {
  return plan.non_blocking >= 0 && *static_cast<const bool*>(values[plan.non_blocking]) &&
         IsElsewhere(*static_cast<const at::Tensor*>(values[plan.source]));
}

class UnboxedCall {
 public:
  UnboxedCall(const UnboxedPlan& unboxed, const void* const* values) : unboxed_(unboxed), values_(values) {}

  template <typename Result>
  void DescribeEnd(const Result& result, ConfigBuilder* config) const {
    DescribeWritten(unboxed_, values_, &ArgumentPlan::after, config);
    DescribeResults(*unboxed_.plan, IsUnderWay(*unboxed_.plan, values_), result, config);
  }
  std::string_view head() const { return unboxed_.plan->head; }
  bool DescribesException() const { return unboxed_.plan->writes; }
  void DescribeException(ConfigBuilder* config) const {
    DescribeWritten(unboxed_, values_, &ArgumentPlan::after_exception, config);
  }

 private:
  const UnboxedPlan& unboxed_;
  const void* const* const values_;
};

template <typename Operator, typename Signature = typename Operator::schema>
struct Unboxed;
template <typename Operator, typename Result, typename... Arguments>
struct Unboxed<Operator, Result(Arguments...)> {
  static Result Run(c10::DispatchKeySet keys, Arguments... arguments) {
    if (GoesToMode(keys)) return Operator::redispatch(keys & kBelowKey, arguments...);
    const auto call = [&]() -> Result {
      if (GoesToPython(keys)) return Operator::redispatch(keys & kBelowKey, arguments...);
      const Inside inside;
      return Operator::redispatch(keys & kBelowKey, arguments...);
    };
    const void* const values[] = {std::addressof(arguments)...};
    return RecordEnd(EnterUnboxed(plan, values), UnboxedCall(plan, values), call);
  }

  static constexpr CppArgument kArguments[] = {kCppArgument<std::remove_cvref_t<Arguments>>...};
  static inline UnboxedPlan plan = {};  // made before the first call
};

// torch::Library would infer a schema of each, which takes long to compile, to compare it with the operator's.
void AddUnboxedKernels() {
  static auto* const kernels = new std::vector<c10::RegistrationHandleRAII>;  // they stay registered
  ForEachUnboxedOperator([](auto op) {
    using Operator = decltype(op);
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(Operator::name, Operator::overload_name);
    Unboxed<Operator>::plan = {OperatorPlans::Make(handle.schema(), kDispatchLevel).release(),
                               Unboxed<Operator>::kArguments};
    kernels->push_back(c10::Dispatcher::singleton().registerImpl(
        {Operator::name, Operator::overload_name}, kDispatchKey,
        c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(Unboxed<Operator>::Run)),
        c10::impl::CppSignature::make<decltype(Unboxed<Operator>::Run)>(), nullptr, "torchtrace"));
  });
}

// The calls that go to a tensor subclass's __torch_dispatch__ are recorded by PyTorch's table of what calls Python.
// While a dispatch mode of the program is on, the mode's calls are recorded instead.
using Table = c10::impl::PyInterpreterVTable;
VirtualFunction<Table, void, const c10::OperatorHandle&, torch::jit::Stack*> g_dispatch = nullptr;
VirtualFunction<Table, c10::intrusive_ptr<c10::TensorImpl>, const c10::TensorImpl*> g_detach = nullptr;

bool RecordsSubclasses() {
  return KeyIsOn() && c10::impl::TorchDispatchModeTLS::stack_len() == 0 &&
         c10::impl::tls_is_dispatch_key_included(kDispatchKey);
}

void DispatchInPython(const Table* table, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (kAbovePython || !RecordsSubclasses()) {
    const SeenInPython seen;
    return g_dispatch(table, op, stack);
  }
  BoxedCall boxed(op, *stack);
  const bool recorded = Enter([&](auto* call) { DescribeBoxedCall(op, *stack, call); });
  if (recorded) boxed.Keep();
  RecordEnd(recorded, boxed, [&] { g_dispatch(table, op, stack); });
}

c10::intrusive_ptr<c10::TensorImpl> DetachInPython(const Table* table, const c10::TensorImpl* self) {
  if (!RecordsSubclasses()) return g_detach(table, self);
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::detach", "");
  const auto describe = [self](auto* call) {
    const torch::jit::Stack stack = {
        at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(
            const_cast<c10::TensorImpl*>(self)))};
    DescribeBoxedCall(op, stack, call);
  };
  struct Detached {
    void DescribeEnd(const c10::intrusive_ptr<c10::TensorImpl>& result, ConfigBuilder* config) const {
      DescribeResults(OfThisThread().plans.Get(op.schema()), /*under_way=*/false, result, config);
    }
    std::string_view head() const { return OfThisThread().plans.Get(op.schema()).head; }
    bool DescribesException() const { return false; }
    void DescribeException(ConfigBuilder*) const {}
  };
  return RecordEnd(Enter(describe), Detached(), [&] { return g_detach(table, self); });
}

std::unique_ptr<torch::Library> g_library;

bool LetHigherOrderOperatorsPass() {
  PyObject* const ops = ImportedModule("torch._ops");
  PyObject* const c = ImportedModule("torch._C");
  PyObject* const args =
      ops == nullptr || c == nullptr ? nullptr : Py_BuildValue("(OOs)", ops, c, c10::toString(kDispatchKey));
  PyObject* const done = args == nullptr ? nullptr : CallPythonSource("dispatch_key", "fall_through", args);
  if (done == nullptr) PyErr_Clear();
  Py_XDECREF(args);
  Py_XDECREF(done);
  return done != nullptr;
}

}  // namespace

absl::Status TorchDispatchHook::Install() {
  if (g_library == nullptr) {
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kDispatchKey)) {
      return absl::UnimplementedError("this torch uses the dispatch key that level 2 needs");
    }
    if (!LetHigherOrderOperatorsPass()) {
      return absl::InternalError("torch's higher-order operators are not as expected");
    }
    OperatorPlans::WatchRemovals();
    g_library = std::make_unique<torch::Library>(torch::Library::IMPL, "_", kDispatchKey, __FILE__, __LINE__);
    g_library->fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
    AddUnboxedKernels();
    const Table* const table = getPyInterpreter()->vtable_;
    if (!ReplaceVirtual(table, &Table::dispatch, DispatchInPython, &g_dispatch) ||
        !ReplaceVirtual(table, &Table::detach, DetachInPython, &g_detach)) {
      Recorder::Get()->NoteNotSeen("level 2: operators that tensor subclasses handle: torch's table can't be written");
    }
  }
  if (!TurnKeyOn()) {
    Recorder::Get()->NoteNotSeen(
        "level 2: operators of threads that were inside a guard of PyTorch's (inference_mode)");
  }
  AddThreadArmer(PutKeyRight);
  g_marks_nodes.store(marks_nodes_, std::memory_order_relaxed);
  return absl::OkStatus();
}

void TorchDispatchHook::Uninstall() {
  if (!KeyIsOn()) return;
  RemoveThreadArmer(PutKeyRight);
  TurnKeyOff();
}

}  // namespace torchtrace::torch_dialect
