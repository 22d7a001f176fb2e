#include <cstddef>
#include <cstdint>
#include <utility>

#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/patch_list.h"
#include "dialects/python/setattr/patches.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::python_dialect {
namespace {

struct alignas(64) MethodEntry {
  const Layer* layer = nullptr;
  const TracedApi* api = nullptr;
  PyCFunction original = nullptr;
  PyObject* only_self = nullptr;
  bool method = false;
  bool single = false;  // METH_O
};

// For the many functions that each have their own `self`: all share one entry point. By `self`.
PointerMap<MethodEntry>& OwnSelves(int layer) {
  static auto* const entries = new PointerMap<MethodEntry>[kLayers];
  return entries[layer];
}

// A definition that had an entry before reuses it.
struct Place {
  MethodEntry* entry;
  PyCFunction point;
};
PointerMap<Place>& Places(int layer) {
  static auto* const places = new PointerMap<Place>[kLayers];
  return places[layer];
}

// The type of the argument count that CPython passes to METH_METHOD functions; signed since 3.14.
template <typename Count>
Count CountOf(PyObject* (*)(PyObject*, PyTypeObject*, PyObject* const*, Count, PyObject*));
using MethodCount = decltype(CountOf(PyCMethod()));

template <typename Function, typename Given>
Function As(Given function) {
  return reinterpret_cast<Function>(reinterpret_cast<void (*)()>(function));
}

template <typename Call>
PyObject* Through(const MethodEntry& entry, PyObject* self, CallArguments arguments, Call&& call) {
  if (entry.only_self != nullptr && self != entry.only_self) return call();
  arguments.self = entry.method ? self : nullptr;
  return CallThrough(*entry.layer, *entry.api, arguments, std::forward<Call>(call));
}

[[gnu::noinline]] PyObject* CallTupleAndDict(const MethodEntry& entry, PyObject* self, PyObject* args,
                                             PyObject* kwargs) {
  const auto original = As<PyCFunctionWithKeywords>(entry.original);
  // Some C methods are called with null for no arguments.
  PyObject* const* items = args == nullptr ? nullptr : reinterpret_cast<PyTupleObject*>(args)->ob_item;
  const Py_ssize_t count = args == nullptr ? 0 : PyTuple_GET_SIZE(args);
  return Through(entry, self, {nullptr, items, count, nullptr, kwargs}, [&] { return original(self, args, kwargs); });
}

[[gnu::noinline]] PyObject* CallArrayAndNames(const MethodEntry& entry, PyObject* self, PyObject* const* args,
                                              Py_ssize_t count, PyObject* names) {
  const auto original = As<_PyCFunctionFastWithKeywords>(entry.original);
  return Through(entry, self, {nullptr, args, count, names, nullptr},
                 [&] { return original(self, args, count, names); });
}

}  // namespace

// C functions have no closures: every definition needs an entry point of its own. The points of a calling convention
// lie behind one another; each passes its number to the function of the convention, as one argument more, and has
// kPointSize bytes.
#if defined(__x86_64__)
#define TORCHTRACE_POINT(number, x86_register, arm_register, function) \
  "movl $" number ", %" x86_register                                   \
  "\n"                                                                 \
  "jmp " function                                                      \
  "\n"                                                                 \
  ".balign 16\n"
constexpr size_t kPointSize = 16;
#elif defined(__aarch64__)
#define TORCHTRACE_POINT(number, x86_register, arm_register, function) \
  "mov " arm_register ", #" number                                     \
  "\n"                                                                 \
  "b " function "\n"
constexpr size_t kPointSize = 8;
#else
#error "the entry points of C functions are not written for this processor"
#endif

#define TORCHTRACE_TEXT_(text) #text
#define TORCHTRACE_TEXT(text) TORCHTRACE_TEXT_(text)
#define TORCHTRACE_POINTS(points, many, x86_register, arm_register, function) \
  extern "C" [[gnu::visibility("hidden")]] const char points[];               \
  asm(".pushsection .text\n"                                                 \
      ".balign 16\n"                                                         \
      ".globl " #points "\n"                                                 \
      ".hidden " #points "\n"                                                \
      #points ":\n"                                                          \
      ".cfi_startproc\n"                                                     \
      ".set torchtrace_number, 0\n"                                          \
      ".rept " TORCHTRACE_TEXT(many) "\n"                                    \
      TORCHTRACE_POINT("torchtrace_number", x86_register, arm_register, #function) \
      ".set torchtrace_number, torchtrace_number + 1\n"                      \
      ".endr\n"                                                              \
      ".cfi_endproc\n"                                                       \
      ".popsection\n")

#define TORCHTRACE_MANY 10240
#define TORCHTRACE_SOME 4096
#define TORCHTRACE_FEW 1024
TORCHTRACE_POINTS(torchtrace_tuple_and_dict_points, TORCHTRACE_MANY, "ecx", "w3", torchtrace_call_tuple_and_dict);
TORCHTRACE_POINTS(torchtrace_tuple_points, TORCHTRACE_MANY, "edx", "w2", torchtrace_call_tuple);
TORCHTRACE_POINTS(torchtrace_array_points, TORCHTRACE_SOME, "ecx", "w3", torchtrace_call_array);
TORCHTRACE_POINTS(torchtrace_array_and_names_points, TORCHTRACE_SOME, "r8d", "w4", torchtrace_call_array_and_names);
TORCHTRACE_POINTS(torchtrace_of_class_points, TORCHTRACE_FEW, "r9d", "w5", torchtrace_call_of_class);

namespace {

// The entries of one calling convention, and their points.
struct Table {
  MethodEntry* entries;
  size_t size;
  const char* points;
  size_t used = 0;
};
MethodEntry g_tuple_and_dict_entries[TORCHTRACE_MANY];
MethodEntry g_tuple_entries[TORCHTRACE_MANY];
MethodEntry g_array_entries[TORCHTRACE_SOME];
MethodEntry g_array_and_names_entries[TORCHTRACE_SOME];
MethodEntry g_of_class_entries[TORCHTRACE_FEW];
Table g_tuple_and_dict = {g_tuple_and_dict_entries, TORCHTRACE_MANY, torchtrace_tuple_and_dict_points};
Table g_tuple = {g_tuple_entries, TORCHTRACE_MANY, torchtrace_tuple_points};  // or one object, or nothing
Table g_array = {g_array_entries, TORCHTRACE_SOME, torchtrace_array_points};
Table g_array_and_names = {g_array_and_names_entries, TORCHTRACE_SOME, torchtrace_array_and_names_points};
Table g_of_class = {g_of_class_entries, TORCHTRACE_FEW, torchtrace_of_class_points};

}  // namespace

#define TORCHTRACE_CALLED_BY_POINTS extern "C" [[gnu::used, gnu::visibility("hidden")]] PyObject*

TORCHTRACE_CALLED_BY_POINTS torchtrace_call_tuple_and_dict(PyObject* self, PyObject* args, PyObject* kwargs,
                                                           uint32_t number) {
  return CallTupleAndDict(g_tuple_and_dict_entries[number], self, args, kwargs);
}

TORCHTRACE_CALLED_BY_POINTS torchtrace_call_tuple(PyObject* self, PyObject* args, uint32_t number) {
  const MethodEntry& entry = g_tuple_entries[number];
  PyObject* const* items = &args;
  Py_ssize_t count = args != nullptr;
  if (!entry.single && args != nullptr) {
    items = reinterpret_cast<PyTupleObject*>(args)->ob_item;
    count = PyTuple_GET_SIZE(args);
  }
  return Through(entry, self, {nullptr, items, count, nullptr, nullptr}, [&] { return entry.original(self, args); });
}

TORCHTRACE_CALLED_BY_POINTS torchtrace_call_array(PyObject* self, PyObject* const* args, Py_ssize_t count,
                                                  uint32_t number) {
  const MethodEntry& entry = g_array_entries[number];
  const auto original = As<_PyCFunctionFast>(entry.original);
  return Through(entry, self, {nullptr, args, count, nullptr, nullptr}, [&] { return original(self, args, count); });
}

TORCHTRACE_CALLED_BY_POINTS torchtrace_call_array_and_names(PyObject* self, PyObject* const* args, Py_ssize_t count,
                                                            PyObject* names, uint32_t number) {
  return CallArrayAndNames(g_array_and_names_entries[number], self, args, count, names);
}

TORCHTRACE_CALLED_BY_POINTS torchtrace_call_of_class(PyObject* self, PyTypeObject* definer, PyObject* const* args,
                                                     MethodCount count, PyObject* names, uint32_t number) {
  const MethodEntry& entry = g_of_class_entries[number];
  const auto original = As<PyCMethod>(entry.original);
  return Through(entry, self, {nullptr, args, static_cast<Py_ssize_t>(count), names, nullptr},
                 [&] { return original(self, definer, args, count, names); });
}

namespace {

template <int kLayer>
PyObject* EnterOwnTupleAndDict(PyObject* self, PyObject* args, PyObject* kwargs) {
  return CallTupleAndDict(*OwnSelves(kLayer).Find(self), self, args, kwargs);
}
template <int kLayer>
PyObject* EnterOwnArrayAndNames(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return CallArrayAndNames(*OwnSelves(kLayer).Find(self), self, args, count, names);
}
constexpr PyCFunctionWithKeywords kOwnTupleAndDictPoints[kLayers] = {EnterOwnTupleAndDict<0>, EnterOwnTupleAndDict<1>,
                                                                     EnterOwnTupleAndDict<2>, EnterOwnTupleAndDict<3>};
constexpr _PyCFunctionFastWithKeywords kOwnArrayAndNamesPoints[kLayers] = {
    EnterOwnArrayAndNames<0>, EnterOwnArrayAndNames<1>, EnterOwnArrayAndNames<2>, EnterOwnArrayAndNames<3>};

template <typename Function>
Place* MakeOwnPlace(int layer, PyObject* self, const Function (&points)[kLayers]) {
  auto* const entry = new MethodEntry;
  OwnSelves(layer).Insert(self, entry);
  return new Place{entry, As<PyCFunction>(points[layer])};
}

// The next entry and its point, or null if there is no room. Level 3 takes entries for all functions: two fifths of the
// room are reserved for the levels that take only some.
Place* Take(int layer, Table* table) {
  if (table->used == table->size || (layer == kFrameLayer && table->used >= table->size - table->size / 5 * 2)) {
    return nullptr;
  }
  const size_t number = table->used++;
  return new Place{&table->entries[number],
                   reinterpret_cast<PyCFunction>(reinterpret_cast<uintptr_t>(table->points) + number * kPointSize)};
}

constexpr int kConvention = METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL | METH_METHOD;

// Null: an unknown calling convention.
Place* TakeOwnPlace(int flags, int layer, PyObject* self) {
  if ((flags & kConvention) == (METH_VARARGS | METH_KEYWORDS)) return MakeOwnPlace(layer, self, kOwnTupleAndDictPoints);
  if ((flags & kConvention) == (METH_FASTCALL | METH_KEYWORDS)) {
    return MakeOwnPlace(layer, self, kOwnArrayAndNamesPoints);
  }
  return nullptr;
}

// Null: an unknown calling convention, or no room.
Place* TakePlace(int layer, int flags) {
  switch (flags & kConvention) {
    case METH_VARARGS | METH_KEYWORDS:
      return Take(layer, &g_tuple_and_dict);
    case METH_O:
    case METH_VARARGS:
    case METH_NOARGS:
      return Take(layer, &g_tuple);
    case METH_FASTCALL:
      return Take(layer, &g_array);
    case METH_FASTCALL | METH_KEYWORDS:
      return Take(layer, &g_array_and_names);
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
      return Take(layer, &g_of_class);
    default:
      return nullptr;
  }
}

}  // namespace

bool IsEntered(const PyMethodDef* definition) {
  for (int layer = 0; layer < kLayers; ++layer) {
    const Place* const place = Places(layer).Find(definition);
    if (place != nullptr && definition->ml_meth == place->point) return true;
  }
  return false;
}

bool PatchMethod(int layer, PyMethodDef* definition, MethodSelf self, PyObject* only_self, const TracedApi* api,
                 PatchList* patches) {
  if (!IsWritable(&definition->ml_meth)) return false;
  // The API's object, to which we own a reference, keeps the definition alive. Its pointer may be another level's
  // entry, and may have changed since.
  Place* place = Places(layer).Find(definition);
  if (place == nullptr) {
    place = self == MethodSelf::kOwn ? TakeOwnPlace(definition->ml_flags, layer, only_self)
                                     : TakePlace(layer, definition->ml_flags);
    if (place == nullptr) return false;
    Places(layer).Insert(definition, place);
  }
  if (definition->ml_meth == place->point) return false;
  MethodEntry& entry = *place->entry;
  entry.layer = &g_layers[layer];
  entry.api = api;
  entry.original = definition->ml_meth;
  entry.method = self == MethodSelf::kArgument;
  entry.only_self = self == MethodSelf::kOnly ? only_self : nullptr;
  entry.single = (definition->ml_flags & METH_O) != 0;
  KeepBuiltin(definition, definition->ml_meth);
  patches->Replace(&definition->ml_meth, place->point);
  return true;
}

}  // namespace torchtrace::python_dialect
