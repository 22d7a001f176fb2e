#include "tracer/record/native_threads.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "tracer/record/export.h"

namespace {

// Only in glibc 2.35 and later.
#pragma weak _dl_find_object

using PthreadCreate = decltype(&pthread_create);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // sanitizers define their own pthread_create
#else
constexpr bool kSanitized = false;
#endif

std::atomic<bool> g_any_unwatched{kSanitized};
std::atomic<void (*)()> g_begun{nullptr};
std::atomic<void (*)()> g_cannot{nullptr};
std::atomic<bool (*)()> g_is_pythons{nullptr};

// Decides by the library of the thread's start function; std::thread's is in the C++ library. Doesn't use dladdr: that
// would wait for an import on another thread, which may wait for this one.
bool Counts(void* function) {
  static constexpr std::array<std::string_view, 3> kBlas = {"openblas", "libmkl", "libblis"};
  dl_find_object found;
  if (_dl_find_object == nullptr || _dl_find_object(function, &found) != 0) return true;
  std::string_view name = found.dlfo_link_map->l_name;
  if (name.empty()) name = "libpython";  // the main program, which may be Python itself
  name.remove_prefix(name.rfind('/') + 1);
  const auto is_of = [name](std::string_view library) { return name.find(library) != std::string_view::npos; };
  if (bool (*const is_pythons)() = g_is_pythons; is_of("libpython")) return is_pythons == nullptr || !is_pythons();
  return std::none_of(kBlas.begin(), kBlas.end(), is_of);
}

// Looked up before the program runs, for the same reason, unless a thread starts even earlier.
PthreadCreate g_next = nullptr;
[[gnu::constructor]] void FindNext() {
  if (g_next == nullptr) g_next = reinterpret_cast<PthreadCreate>(dlsym(RTLD_NEXT, "pthread_create"));
}

// Enough for what PyTorch does for a callback, beside its thread-local variables, which are on the stack too.
constexpr size_t kEnoughStack = 128 << 10;

bool HasEnoughStack(const pthread_attr_t* attributes) {
  size_t bytes = 0;
  return attributes == nullptr || pthread_attr_getstacksize(attributes, &bytes) != 0 || bytes >= kEnoughStack;
}

// What a thread is to run.
struct Start {
  void* (*function)(void*);
  void* argument;
};

void* Begin(void* memory) {
  const Start start = *static_cast<Start*>(memory);
  free(memory);
  if (void (*const begun)() = g_begun) begun();
  return start.function(start.argument);
}

}  // namespace

extern "C" {

TORCHTRACE_EXPORT bool torchtrace_watch_native_threads(void (*begun)(), void (*cannot)(), bool (*is_pythons)()) {
  g_cannot = cannot;
  g_is_pythons = is_pythons;
  g_begun = begun;
  return !g_any_unwatched;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TORCHTRACE_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                                     void* argument) noexcept {
  if (g_next == nullptr) FindNext();
  if (!Counts(reinterpret_cast<void*>(function))) return g_next(thread, attributes, function, argument);
  const bool begins = g_begun != nullptr && HasEnoughStack(attributes);
  auto* const start = begins ? static_cast<Start*>(malloc(sizeof(Start))) : nullptr;
  if (start == nullptr) {
    g_any_unwatched = true;
    if (void (*const cannot)() = g_cannot) cannot();
    return g_next(thread, attributes, function, argument);
  }
  *start = {function, argument};
  const int error = g_next(thread, attributes, Begin, start);
  if (error != 0) free(start);
  return error;
}
#endif

}  // extern "C"
