#include "dialects/torch/record/record_function_hook.h"

#include <ATen/record_function.h>
#include <cxxabi.h>
#include <pthread.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dialects/torch/describe/kept_arguments.h"
#include "dialects/torch/describe/operator_plan.h"
#include "dialects/torch/describe/tensor_notes.h"
#include "dialects/torch/describe/tensor_numbers.h"
#include "serialize/model/record_facts.h"
#include "tracer/record/static_tls.h"
#include "tracer/record/thread_state.h"

namespace torchtrace::torch_dialect {

// What a thread keeps from one call to the next. Null: it has recorded none, or ends.
struct RecordThread;
constinit thread_local RecordThread* t_record TORCHTRACE_STATIC_TLS = nullptr;
constinit thread_local bool t_record_ended TORCHTRACE_STATIC_TLS = false;

namespace {

// A RecordFunction's schema or name, by reference: its public accessors copy the schema, which takes longer than all
// the rest.
struct WhatItIsOf {
  using Type = std::variant<std::string, at::RecordFunction::schema_ref_t> at::RecordFunction::*;
  friend Type MemberOf(WhatItIsOf);
};
template <typename Member, typename Member::Type kMember>
struct Reach {
  friend typename Member::Type MemberOf(Member) { return kMember; }
};
template struct Reach<WhatItIsOf, &at::RecordFunction::fn_>;

// Null: it only has a name.
const c10::FunctionSchema* SchemaOf(const at::RecordFunction& function) {
  const auto* const schema = std::get_if<at::RecordFunction::schema_ref_t>(&(function.*MemberOf(WhatItIsOf())));
  return schema == nullptr ? nullptr : &schema->get();
}

}  // namespace

struct RecordThread {
  // The C++ ABI's record of a thread's exceptions, which stays where it is: std::uncaught_exceptions reads it by two
  // calls.
  struct ExceptionGlobals {
    void* caught;
    unsigned int uncaught;
  };

  OperatorPlans plans{kRecordLevel};
  const ExceptionGlobals& exceptions = *reinterpret_cast<const ExceptionGlobals*>(abi::__cxa_get_globals());
  std::vector<void*> spare;  // memory of calls that have ended, for the next ones
  uint64_t open_nodes = 0;   // of autograd

  // The thread's stack; empty if it isn't known.
  uintptr_t stack_begin = 0;
  uintptr_t stack_end = 0;

  RecordThread() {
    spare.reserve(32);
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* lowest;
    size_t bytes;
    if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0) {
      stack_begin = reinterpret_cast<uintptr_t>(lowest);
      stack_end = stack_begin + bytes;
    }
    pthread_attr_destroy(&attributes);
  }
  RecordThread(const RecordThread&) = delete;
  ~RecordThread() {
    t_record = nullptr;
    t_record_ended = true;
    for (void* const memory : spare) ::operator delete(memory);
  }

  static RecordThread* OfThisThread() {
    if (t_record == nullptr && !t_record_ended) [[unlikely]] {
      static thread_local const std::unique_ptr<RecordThread> own = std::make_unique<RecordThread>();
      t_record = own.get();
    }
    return t_record;
  }
};

namespace {

void Describe(const at::RecordFunction& function, ConfigBuilder* config) {
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  if (const c10::FunctionSchema* const schema = SchemaOf(function)) {
    const OperatorPlan& plan = t_record->plans.Get(*schema);
    // A boxed call reports everything on the stack; the operator's own arguments are the last ones. How many a variadic
    // one takes is unknown.
    if (plan.arguments.size() <= inputs.size() && !schema->is_vararg()) {
      return DescribeOperatorCall(plan, inputs.data() + (inputs.size() - plan.arguments.size()), config);
    }
    config->Begin(plan.head);
  } else {
    config->Begin(ConfigBuilder::EncodeHead(kRecordLevel, function.name()));
  }
  config->Positional(inputs.size());
  for (const c10::IValue& input : inputs) DescribeArgument(IntKind::kInt, input, config);
  // Kernels of Inductor and Triton have keywords: file, grid. Sorted, since kwinputs() has no order.
  const auto unsorted = function.kwinputs();
  const std::map<std::string_view, c10::IValue> keywords(unsorted.begin(), unsorted.end());
  config->Keywords(keywords.size());
  for (const auto& [name, value] : keywords) {
    config->Keyword(name);
    DescribeArgument(IntKind::kInt, value, config);
  }
}

// Level 2's calls are whole. Here, calls inside of them take memory that a kernel has allocated and not filled yet.
bool LeavesNumbersToOperators() { return g_reads_are_kept.load(std::memory_order_relaxed); }

// Null: it is no operator, or it is a variadic one.
const OperatorPlan* PlanOf(const at::RecordFunction& function) {
  const c10::FunctionSchema* const schema = SchemaOf(function);
  return schema == nullptr || schema->is_vararg() ? nullptr : &t_record->plans.Get(*schema);
}

void Describe(const at::RecordFunction& function, CallKey* key) {
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  if (const c10::FunctionSchema* const schema = SchemaOf(function)) {
    const OperatorPlan* const plan = t_record->plans.Find(*schema);
    if (plan == nullptr || plan->arguments.size() > inputs.size() || schema->is_vararg()) return key->Fail();
    return DescribeOperatorCall(*plan, inputs.data() + (inputs.size() - plan->arguments.size()), key);
  }
  static const uint64_t named = CallKey::NewFunctionNumber();
  key->Begin(named);
  key->String(function.name());
  key->Positional(inputs.size());
  for (const c10::IValue& input : inputs) DescribeArgument(IntKind::kInt, input, key);
  if (!function.kwinputs().empty()) key->Fail();
}

// Whether it may be closed in another function than the one that opened it, or on another thread: by the program, a
// kernel's launcher or TorchScript's interpreter. What is in the frame of a function is closed by that.
bool IsScope(const at::RecordFunction& function) {
  constexpr uintptr_t kFrameBytes = 16 << 10;
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const auto address = reinterpret_cast<uintptr_t>(&function);
  return here < t_record->stack_begin || address < here || std::min(here + kFrameBytes, t_record->stack_end) <= address;
}

// A recorded call that is open. PyTorch deletes it, on any thread.
struct OpenRecord final : at::ObserverContext {
  std::shared_ptr<Scope> scope;  // null: it is a call
  KeptArguments arguments;       // of an operator that writes some of them, if they are to have numbers
  bool is_node = false;          // of autograd
  const unsigned int exceptions = t_record->exceptions.uncaught;

  static void* operator new(size_t bytes) {
    if (t_record == nullptr || t_record->spare.empty()) return ::operator new(bytes);
    void* const memory = t_record->spare.back();
    t_record->spare.pop_back();
    return memory;
  }
  static void operator delete(void* memory) {
    if (t_record == nullptr || t_record->spare.size() == t_record->spare.capacity()) return ::operator delete(memory);
    t_record->spare.push_back(memory);
  }
};

// Whether the engine of autograd calls the operator between two nodes, as for the sum that a bias gets or in a hook: it
// counts as one of the node before.
bool IsBetweenNodes(const at::RecordFunction& function, const RecordFacts& facts) {
  return facts.scope == kFunctionScope && facts.sequence < 0 && t_record->open_nodes == 0 &&
         SchemaOf(function) != nullptr && torch::autograd::get_current_graph_task_id() >= 0;
}

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  ThreadState& thread = t_thread;
  if (!thread.Recording() || RecordThread::OfThisThread() == nullptr) return nullptr;
  RecordFacts facts = {.scope = static_cast<uint64_t>(function.scope()),
                       .thread = function.threadId(),
                       .sequence = function.seqNr(),
                       .forward_thread = function.forwardThreadId(),
                       .id = function.handle()};
  if (IsBetweenNodes(function, facts)) facts.scope = kBackwardScope;
  const auto describe = [&](auto* call) {
    const WithoutNumbers without(LeavesNumbersToOperators());
    Describe(function, call);
  };
  // It ends on any thread, when its work is done, so it is not a call of this thread.
  if (function.isAsync()) {
    if (thread.Enter(describe, &facts)) thread.Leave();
    return nullptr;
  }
  auto open = std::make_unique<OpenRecord>();
  if (IsScope(function)) {
    open->scope = thread.OpenScope(describe, facts);
    if (open->scope == nullptr) return nullptr;
  } else if (!thread.Enter(describe, &facts)) {
    return nullptr;
  } else if (NumbersAreWanted() && !LeavesNumbersToOperators()) {
    const OperatorPlan* const plan = PlanOf(function);
    const c10::ArrayRef<c10::IValue> inputs = function.inputs();
    if (plan != nullptr && plan->writes && plan->arguments.size() <= inputs.size()) {
      open->arguments.Keep(inputs.slice(inputs.size() - plan->arguments.size()));
    }
  }
  open->is_node = function.scope() == at::RecordScope::BACKWARD_FUNCTION;
  if (open->is_node) ++t_record->open_nodes;
  return open;
}

void End(const at::RecordFunction& function, at::ObserverContext* context) {
  const auto* const open = static_cast<const OpenRecord*>(context);
  if (open == nullptr) return;
  RecordThread* const thread = RecordThread::OfThisThread();
  if (open->is_node && thread != nullptr) --thread->open_nodes;
  // The exception is not caught yet, so its type is unknown here.
  const bool raised = thread != nullptr && thread->exceptions.uncaught > open->exceptions;
  if (open->scope != nullptr) {
    t_thread.CloseScope(open->scope.get(), raised);
  } else if (thread == nullptr) {
    return;
  } else if (raised) {
    t_thread.Raise({});
  } else {
    t_thread.Leave([&](ConfigBuilder* config) {
      const WithoutNumbers without(LeavesNumbersToOperators());
      // The results are the last values on the operator's stack; if PyTorch doesn't report them there are none.
      const std::vector<c10::IValue>& outputs = function.outputs();
      const size_t count =
          std::min<size_t>(static_cast<size_t>(std::max<int64_t>(0, function.num_outputs())), outputs.size());
      static const OperatorPlan kUnknown;
      const OperatorPlan* const plan = PlanOf(function);
      const auto arguments = open->arguments.size() != 0 && plan != nullptr ? open->arguments.Lock() : std::nullopt;
      if (arguments) DescribeWritten(*plan, *arguments, &ArgumentPlan::after, config);
      ResultDescriber results(plan == nullptr ? kUnknown : *plan, count, /*under_way=*/false, config);
      for (size_t i = outputs.size() - count; i < outputs.size(); ++i) results.Add(outputs[i]);
    });
  }
}

}  // namespace

absl::Status RecordFunctionHook::Install() {
  if (callback_ != 0) return absl::OkStatus();
  OperatorPlans::WatchRemovals();
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(Begin, End).needsInputs(true).needsOutputs(outputs_).needsIds(ids_));
  return absl::OkStatus();
}

void RecordFunctionHook::Uninstall() {
  if (callback_ != 0) at::removeCallback(std::exchange(callback_, 0));
}

}  // namespace torchtrace::torch_dialect
