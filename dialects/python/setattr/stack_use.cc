#include "dialects/python/setattr/stack_use.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "tracer/cpython/objects.h"
#include "tracer/record/recorder.h"

// The top of the program's first stack; of the dynamic linker.
extern "C" void* __libc_stack_end;

namespace torchtrace::python_dialect {

constinit thread_local StackUse::ThreadStack StackUse::thread_ TORCHTRACE_STATIC_TLS;

namespace {

constexpr size_t kMostBytes = 2 << 20;
// A thread's stack may be small.
constexpr size_t kPartOfStack = 4;
constexpr size_t kLeastStack = 512 << 10;  // if it isn't known

// The program's first stack, or a thread's, on which a forked process may stand.
constexpr uintptr_t kMostOfFirstStack = uintptr_t{1} << 30;

uint64_t g_removals = 0;

// The entries of functions whose calls are made as untraced.
absl::flat_hash_map<PyFunctionObject*, vectorcallfunc>& DeepFunctions() {
  static auto* const functions = new absl::flat_hash_map<PyFunctionObject*, vectorcallfunc>;
  return *functions;
}

// Calls of the function that begin before this one returns, on any thread, are as untraced, and use no C stack.
[[gnu::noinline]] PyObject* CallAsUntraced(PyFunctionObject* function, PyObject* const* arguments, size_t flags,
                                           PyObject* names) {
  const vectorcallfunc own = FunctionVectorcall();
  const uint64_t removals = g_removals;
  const vectorcallfunc entry = std::exchange(function->vectorcall, own);
  DeepFunctions()[function] = entry;
  NoteTooMuchStack();
  PyObject* const callable = Py_NewRef(reinterpret_cast<PyObject*>(function));
  PyObject* const result = own(callable, arguments, flags, names);
  DeepFunctions().erase(function);
  if (function->vectorcall == own && removals == g_removals) {
    function->vectorcall = entry;
    uint32_t number = 0;
    HideFromSpecialization(function, &number, [](uint32_t*, uint32_t) {});
  }
  Py_DECREF(callable);
  return result;
}

}  // namespace

size_t StackUse::MostBytes() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const uintptr_t used = reinterpret_cast<uintptr_t>(__libc_stack_end) - here;
  rlimit limit = {};
  size_t size = kLeastStack;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && used < std::min<rlim_t>(limit.rlim_cur, kMostOfFirstStack)) {
    // pthread_getattr_np would open a file.
    size = limit.rlim_cur;
  } else if (pthread_attr_t attributes; pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
  }
  return std::min(size / kPartOfStack, kMostBytes);
}

PyObject* CallPastEntries(PyObject* function, PyObject* const* arguments, size_t flags, PyObject* names) {
  // Before, it is the evaluation that takes stack, if anything does.
  if constexpr (!kFunctionsAreWatched) return FunctionVectorcall()(function, arguments, flags, names);
  StackUse use(StackUse::kEntry);
  PyObject* const result = use.TooMuch()
                               ? CallAsUntraced(reinterpret_cast<PyFunctionObject*>(function), arguments, flags, names)
                               : FunctionVectorcall()(function, arguments, flags, names);
  use.End();
  return result;
}

vectorcallfunc EntryOf(PyFunctionObject* function) {
  const auto deep = DeepFunctions().find(function);
  return deep == DeepFunctions().end() ? function->vectorcall : deep->second;
}

void NoteRemovedEntries() { ++g_removals; }

void NoteTooMuchStack() {
  if (Recorder* const recorder = Recorder::Get()) {
    recorder->NoteNotSeen("Python functions called when Python's frames had used up their part of the C stack");
  }
}

}  // namespace torchtrace::python_dialect
