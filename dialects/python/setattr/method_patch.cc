#include <array>
#include <cstddef>
#include <utility>

#include "dialects/python/setattr/attribute_path.h"
#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/patch_list.h"
#include "dialects/python/setattr/patches.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::python_dialect {
namespace {

struct Entry {
  const Layer* layer = nullptr;
  const TracedApi* api = nullptr;
  PyCFunction original = nullptr;
  PyObject* only_self = nullptr;
  bool method = false;
  bool single = false;  // METH_O
};

// The entries of one calling convention.
template <size_t kSize>
struct Table {
  std::array<Entry, kSize> entries;
  size_t used = 0;
};
constexpr size_t kMany = 10240;
constexpr size_t kSome = 4096;
constexpr size_t kFew = 1024;
Table<kMany> g_tuple_and_dict;
Table<kMany> g_tuple;  // or one object, or nothing
Table<kSome> g_array;
Table<kSome> g_array_and_names;
Table<kFew> g_of_class;

// For the many functions that each have their own `self`: all share one entry point. By `self`.
PointerMap<Entry>& OwnSelves(int layer) {
  static auto* const entries = new PointerMap<Entry>[kLayers];
  return entries[layer];
}

// A definition that had an entry before reuses it.
struct Place {
  Entry* entry;
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
PyObject* Through(const Entry& entry, PyObject* self, CallArguments arguments, Call&& call) {
  if (entry.only_self != nullptr && self != entry.only_self) return call();
  arguments.self = entry.method ? self : nullptr;
  return CallThrough(*entry.layer, *entry.api, arguments, std::forward<Call>(call));
}

[[gnu::noinline]] PyObject* CallTupleAndDict(const Entry& entry, PyObject* self, PyObject* args, PyObject* kwargs) {
  const auto original = As<PyCFunctionWithKeywords>(entry.original);
  // Some C methods are called with null for no arguments.
  PyObject* const* items = args == nullptr ? nullptr : reinterpret_cast<PyTupleObject*>(args)->ob_item;
  const Py_ssize_t count = args == nullptr ? 0 : PyTuple_GET_SIZE(args);
  return Through(entry, self, {nullptr, items, count, nullptr, kwargs}, [&] { return original(self, args, kwargs); });
}

[[gnu::noinline]] PyObject* CallTuple(const Entry& entry, PyObject* self, PyObject* args) {
  PyObject* const* items = &args;
  Py_ssize_t count = args != nullptr;
  if (!entry.single && args != nullptr) {
    items = reinterpret_cast<PyTupleObject*>(args)->ob_item;
    count = PyTuple_GET_SIZE(args);
  }
  return Through(entry, self, {nullptr, items, count, nullptr, nullptr}, [&] { return entry.original(self, args); });
}

[[gnu::noinline]] PyObject* CallArray(const Entry& entry, PyObject* self, PyObject* const* args, Py_ssize_t count) {
  const auto original = As<_PyCFunctionFast>(entry.original);
  return Through(entry, self, {nullptr, args, count, nullptr, nullptr}, [&] { return original(self, args, count); });
}

[[gnu::noinline]] PyObject* CallArrayAndNames(const Entry& entry, PyObject* self, PyObject* const* args,
                                              Py_ssize_t count, PyObject* names) {
  const auto original = As<_PyCFunctionFastWithKeywords>(entry.original);
  return Through(entry, self, {nullptr, args, count, names, nullptr},
                 [&] { return original(self, args, count, names); });
}

[[gnu::noinline]] PyObject* CallOfClass(const Entry& entry, PyObject* self, PyTypeObject* definer,
                                        PyObject* const* args, Py_ssize_t count, PyObject* names) {
  const auto original = As<PyCMethod>(entry.original);
  return Through(entry, self, {nullptr, args, count, names, nullptr},
                 [&] { return original(self, definer, args, static_cast<MethodCount>(count), names); });
}

// C functions have no closures: every definition needs an entry point of its own, as small as possible.
template <size_t N>
PyObject* EnterTupleAndDict(PyObject* self, PyObject* args, PyObject* kwargs) {
  return CallTupleAndDict(g_tuple_and_dict.entries[N], self, args, kwargs);
}
template <size_t N>
PyObject* EnterTuple(PyObject* self, PyObject* args) {
  return CallTuple(g_tuple.entries[N], self, args);
}
template <size_t N>
PyObject* EnterArray(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return CallArray(g_array.entries[N], self, args, count);
}
template <size_t N>
PyObject* EnterArrayAndNames(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return CallArrayAndNames(g_array_and_names.entries[N], self, args, count, names);
}
template <size_t N>
PyObject* EnterOfClass(PyObject* self, PyTypeObject* definer, PyObject* const* args, MethodCount count,
                       PyObject* names) {
  return CallOfClass(g_of_class.entries[N], self, definer, args, static_cast<Py_ssize_t>(count), names);
}

template <size_t... N>
constexpr std::array<PyCFunctionWithKeywords, sizeof...(N)> TupleAndDictPoints(std::index_sequence<N...>) {
  return {EnterTupleAndDict<N>...};
}
template <size_t... N>
constexpr std::array<PyCFunction, sizeof...(N)> TuplePoints(std::index_sequence<N...>) {
  return {EnterTuple<N>...};
}
template <size_t... N>
constexpr std::array<_PyCFunctionFast, sizeof...(N)> ArrayPoints(std::index_sequence<N...>) {
  return {EnterArray<N>...};
}
template <size_t... N>
constexpr std::array<_PyCFunctionFastWithKeywords, sizeof...(N)> ArrayAndNamesPoints(std::index_sequence<N...>) {
  return {EnterArrayAndNames<N>...};
}
template <size_t... N>
constexpr std::array<PyCMethod, sizeof...(N)> OfClassPoints(std::index_sequence<N...>) {
  return {EnterOfClass<N>...};
}
constexpr auto kTupleAndDictPoints = TupleAndDictPoints(std::make_index_sequence<kMany>());
constexpr auto kTuplePoints = TuplePoints(std::make_index_sequence<kMany>());
constexpr auto kArrayPoints = ArrayPoints(std::make_index_sequence<kSome>());
constexpr auto kArrayAndNamesPoints = ArrayAndNamesPoints(std::make_index_sequence<kSome>());
constexpr auto kOfClassPoints = OfClassPoints(std::make_index_sequence<kFew>());

template <int kLayer>
PyObject* EnterOwnTupleAndDict(PyObject* self, PyObject* args, PyObject* kwargs) {
  return CallTupleAndDict(*OwnSelves(kLayer).Find(self), self, args, kwargs);
}
template <int kLayer>
PyObject* EnterOwnArrayAndNames(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return CallArrayAndNames(*OwnSelves(kLayer).Find(self), self, args, count, names);
}
constexpr PyCFunctionWithKeywords kOwnTupleAndDictPoints[kLayers] = {EnterOwnTupleAndDict<0>, EnterOwnTupleAndDict<1>,
                                                                     EnterOwnTupleAndDict<2>};
constexpr _PyCFunctionFastWithKeywords kOwnArrayAndNamesPoints[kLayers] = {
    EnterOwnArrayAndNames<0>, EnterOwnArrayAndNames<1>, EnterOwnArrayAndNames<2>};

template <typename Function>
Place* MakeOwnPlace(int layer, PyObject* self, const Function (&points)[kLayers]) {
  auto* const entry = new Entry;
  OwnSelves(layer).Insert(self, entry);
  return new Place{entry, As<PyCFunction>(points[layer])};
}

// The next entry and its point, or null if there is no room. Level 3 takes entries for all functions: two fifths of the
// room are reserved for the levels that take only some.
template <size_t kSize, typename Function>
Place* Take(int layer, Table<kSize>* table, const std::array<Function, kSize>& points) {
  if (table->used == kSize || (layer == kFrameLayer && table->used >= kSize - kSize / 5 * 2)) return nullptr;
  const size_t index = table->used++;
  return new Place{&table->entries[index], reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(points[index]))};
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
      return Take(layer, &g_tuple_and_dict, kTupleAndDictPoints);
    case METH_O:
    case METH_VARARGS:
    case METH_NOARGS:
      return Take(layer, &g_tuple, kTuplePoints);
    case METH_FASTCALL:
      return Take(layer, &g_array, kArrayPoints);
    case METH_FASTCALL | METH_KEYWORDS:
      return Take(layer, &g_array_and_names, kArrayAndNamesPoints);
    case METH_METHOD | METH_FASTCALL | METH_KEYWORDS:
      return Take(layer, &g_of_class, kOfClassPoints);
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
  Entry& entry = *place->entry;
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
