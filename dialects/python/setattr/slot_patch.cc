#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/patches.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::python_dialect {
namespace {

enum class Shape {
  kUnary,
  kBinary,
  kTernary,
  kLength,
  kTruth,
  kAssign,
  kCompare,
  kContains,
  kIndex,
  kIndexAssign,
  kNext
};

struct SlotName {
  const char* name;
  Shape shape;
  int part;  // which of the APIs that share the slot
};

constexpr SlotName kNames[] = {
    {"__neg__", Shape::kUnary, 0},        {"__pos__", Shape::kUnary, 0},       {"__abs__", Shape::kUnary, 0},
    {"__invert__", Shape::kUnary, 0},     {"__int__", Shape::kUnary, 0},       {"__float__", Shape::kUnary, 0},
    {"__index__", Shape::kUnary, 0},      {"__iter__", Shape::kUnary, 0},      {"__repr__", Shape::kUnary, 0},
    {"__str__", Shape::kUnary, 0},        {"__add__", Shape::kBinary, 0},      {"__radd__", Shape::kBinary, 1},
    {"__sub__", Shape::kBinary, 0},       {"__rsub__", Shape::kBinary, 1},     {"__mul__", Shape::kBinary, 0},
    {"__rmul__", Shape::kBinary, 1},      {"__matmul__", Shape::kBinary, 0},   {"__rmatmul__", Shape::kBinary, 1},
    {"__truediv__", Shape::kBinary, 0},   {"__rtruediv__", Shape::kBinary, 1}, {"__floordiv__", Shape::kBinary, 0},
    {"__rfloordiv__", Shape::kBinary, 1}, {"__mod__", Shape::kBinary, 0},      {"__rmod__", Shape::kBinary, 1},
    {"__divmod__", Shape::kBinary, 0},    {"__rdivmod__", Shape::kBinary, 1},  {"__lshift__", Shape::kBinary, 0},
    {"__rlshift__", Shape::kBinary, 1},   {"__rshift__", Shape::kBinary, 0},   {"__rrshift__", Shape::kBinary, 1},
    {"__and__", Shape::kBinary, 0},       {"__rand__", Shape::kBinary, 1},     {"__xor__", Shape::kBinary, 0},
    {"__rxor__", Shape::kBinary, 1},      {"__or__", Shape::kBinary, 0},       {"__ror__", Shape::kBinary, 1},
    {"__iadd__", Shape::kBinary, 0},      {"__isub__", Shape::kBinary, 0},     {"__imul__", Shape::kBinary, 0},
    {"__imatmul__", Shape::kBinary, 0},   {"__itruediv__", Shape::kBinary, 0}, {"__ifloordiv__", Shape::kBinary, 0},
    {"__imod__", Shape::kBinary, 0},      {"__ilshift__", Shape::kBinary, 0},  {"__irshift__", Shape::kBinary, 0},
    {"__iand__", Shape::kBinary, 0},      {"__ixor__", Shape::kBinary, 0},     {"__ior__", Shape::kBinary, 0},
    {"__getitem__", Shape::kBinary, 0},   {"__pow__", Shape::kTernary, 0},     {"__rpow__", Shape::kTernary, 1},
    {"__ipow__", Shape::kTernary, 0},     {"__len__", Shape::kLength, 0},      {"__bool__", Shape::kTruth, 0},
    {"__setitem__", Shape::kAssign, 0},   {"__delitem__", Shape::kAssign, 1},  {"__lt__", Shape::kCompare, Py_LT},
    {"__le__", Shape::kCompare, Py_LE},   {"__eq__", Shape::kCompare, Py_EQ},  {"__ne__", Shape::kCompare, Py_NE},
    {"__gt__", Shape::kCompare, Py_GT},   {"__ge__", Shape::kCompare, Py_GE},  {"__contains__", Shape::kContains, 0},
    {"__next__", Shape::kNext, 0},
};

// Under these names sequences have their own slots, which take a number.
constexpr SlotName kSequenceNames[] = {
    {"__len__", Shape::kLength, 0},          {"__add__", Shape::kBinary, 0},    {"__iadd__", Shape::kBinary, 0},
    {"__contains__", Shape::kContains, 0},   {"__getitem__", Shape::kIndex, 0}, {"__setitem__", Shape::kIndexAssign, 0},
    {"__delitem__", Shape::kIndexAssign, 1}, {"__mul__", Shape::kIndex, 0},     {"__rmul__", Shape::kIndex, 1},
    {"__imul__", Shape::kIndex, 0},
};

struct SlotEntry {
  int layer = 0;
  PyTypeObject* owner = nullptr;
  int offset = 0;  // in PyHeapTypeObject, as CPython counts it
  void* original = nullptr;
  void* point = nullptr;
  std::array<const TracedApi*, 6> apis = {};

  bool Is(int its_layer, const PyTypeObject* type, int slot) const {
    return layer == its_layer && owner == type && offset == slot;
  }
};

// How many slots of each shape there is room for: numpy has 24 types of numbers.
constexpr size_t kMany = 2048;
constexpr size_t kSome = 1024;
constexpr size_t kFew = 256;
std::array<SlotEntry, kMany> g_binary;
std::array<SlotEntry, kSome> g_unary;
std::array<SlotEntry, kSome> g_compare;
std::array<SlotEntry, kFew> g_ternary, g_length, g_truth, g_assign, g_contains, g_index, g_index_assign, g_next;

template <typename Call>
PyObject* Through(const SlotEntry& entry, const TracedApi* api, PyObject* self, PyObject* const* arguments,
                  Py_ssize_t count, Call&& call) {
  if (api == nullptr) return call();
  return CallThrough(g_layers[entry.layer], *api, {self, arguments, count, nullptr, nullptr}, call);
}

// For slots that return a number, with -1 for an error.
template <typename Number, typename Call>
Number NumberThrough(const SlotEntry& entry, const TracedApi* api, PyObject* self, PyObject* const* arguments,
                     Py_ssize_t count, Call&& call) {
  Number number = -1;
  Through(entry, api, self, arguments, count, [&] {
    number = call();
    return number == -1 && PyErr_Occurred() != nullptr ? nullptr : Py_None;
  });
  return number;
}

// Whether the slot is the right operand's: CPython passes the operands in order in either case.
bool Reflected(const SlotEntry& entry, PyObject* left, PyObject* right) {
  return !PyType_IsSubtype(Py_TYPE(left), entry.owner) && PyType_IsSubtype(Py_TYPE(right), entry.owner);
}

[[gnu::noinline]] PyObject* Unary(const SlotEntry& entry, PyObject* self) {
  return Through(entry, entry.apis[0], self, nullptr, 0,
                 [&] { return reinterpret_cast<unaryfunc>(entry.original)(self); });
}

[[gnu::noinline]] PyObject* Binary(const SlotEntry& entry, PyObject* left, PyObject* right) {
  const auto call = [&] { return reinterpret_cast<binaryfunc>(entry.original)(left, right); };
  if (Reflected(entry, left, right)) return Through(entry, entry.apis[1], right, &left, 1, call);
  return Through(entry, entry.apis[0], left, &right, 1, call);
}

[[gnu::noinline]] PyObject* Ternary(const SlotEntry& entry, PyObject* left, PyObject* right, PyObject* third) {
  const auto call = [&] { return reinterpret_cast<ternaryfunc>(entry.original)(left, right, third); };
  if (Reflected(entry, left, right)) return Through(entry, entry.apis[1], right, &left, 1, call);
  PyObject* const others[] = {right, third};
  return Through(entry, entry.apis[0], left, others, third == Py_None ? 1 : 2, call);
}

[[gnu::noinline]] Py_ssize_t Length(const SlotEntry& entry, PyObject* self) {
  return NumberThrough<Py_ssize_t>(entry, entry.apis[0], self, nullptr, 0,
                                   [&] { return reinterpret_cast<lenfunc>(entry.original)(self); });
}

[[gnu::noinline]] int Truth(const SlotEntry& entry, PyObject* self) {
  return NumberThrough<int>(entry, entry.apis[0], self, nullptr, 0,
                            [&] { return reinterpret_cast<inquiry>(entry.original)(self); });
}

[[gnu::noinline]] int Assign(const SlotEntry& entry, PyObject* self, PyObject* key, PyObject* value) {
  PyObject* const arguments[] = {key, value};
  return NumberThrough<int>(entry, entry.apis[value == nullptr], self, arguments, value == nullptr ? 1 : 2,
                            [&] { return reinterpret_cast<objobjargproc>(entry.original)(self, key, value); });
}

[[gnu::noinline]] PyObject* Compare(const SlotEntry& entry, PyObject* self, PyObject* other, int operation) {
  return Through(entry, entry.apis[static_cast<size_t>(operation)], self, &other, 1,
                 [&] { return reinterpret_cast<richcmpfunc>(entry.original)(self, other, operation); });
}

[[gnu::noinline]] int Contains(const SlotEntry& entry, PyObject* self, PyObject* item) {
  return NumberThrough<int>(entry, entry.apis[0], self, &item, 1,
                            [&] { return reinterpret_cast<objobjproc>(entry.original)(self, item); });
}

// The number as a Python object; null without an error if memory runs out.
PyObject* Number(Py_ssize_t number) {
  PyObject* const object = PyLong_FromSsize_t(number);
  if (object == nullptr) PyErr_Clear();
  return object;
}

[[gnu::noinline]] PyObject* Index(const SlotEntry& entry, PyObject* self, Py_ssize_t number) {
  const auto call = [&] { return reinterpret_cast<ssizeargfunc>(entry.original)(self, number); };
  // `3 * x` and `x * 3` look the same here.
  const TracedApi* const api = entry.apis[0] != nullptr ? entry.apis[0] : entry.apis[1];
  PyObject* const argument = Number(number);
  if (argument == nullptr) return call();
  PyObject* const result = Through(entry, api, self, &argument, 1, call);
  Py_DECREF(argument);
  return result;
}

[[gnu::noinline]] int IndexAssign(const SlotEntry& entry, PyObject* self, Py_ssize_t number, PyObject* value) {
  const auto call = [&] { return reinterpret_cast<ssizeobjargproc>(entry.original)(self, number, value); };
  PyObject* const argument = Number(number);
  if (argument == nullptr) return call();
  PyObject* const arguments[] = {argument, value};
  const int result =
      NumberThrough<int>(entry, entry.apis[value == nullptr], self, arguments, value == nullptr ? 1 : 2, call);
  Py_DECREF(argument);
  return result;
}

// Null without an error is the end of the iteration.
[[gnu::noinline]] PyObject* Next(const SlotEntry& entry, PyObject* self) {
  PyObject* item = nullptr;
  Through(entry, entry.apis[0], self, nullptr, 0, [&] {
    item = reinterpret_cast<iternextfunc>(entry.original)(self);
    return item == nullptr && PyErr_Occurred() != nullptr ? nullptr : Py_None;
  });
  return item;
}

// C functions have no closures: every slot needs an entry point of its own, as small as possible.
template <const auto& kEntries, auto kCall>
struct PointsOf;
template <const auto& kEntries, typename Result, typename... Arguments, Result (*kCall)(const SlotEntry&, Arguments...)>
struct PointsOf<kEntries, kCall> {
  template <size_t N>
  static Result Enter(Arguments... arguments) {
    return kCall(kEntries[N], arguments...);
  }
  template <size_t... N>
  static constexpr auto Make(std::index_sequence<N...>) {
    return std::array<Result (*)(Arguments...), sizeof...(N)>{Enter<N>...};
  }
  static void* Get(size_t index) {
    static constexpr auto kPoints =
        Make(std::make_index_sequence<std::tuple_size_v<std::decay_t<decltype(kEntries)>>>());
    return reinterpret_cast<void*>(kPoints[index]);
  }
};

struct SlotTable {
  SlotEntry* entries;
  size_t size;
  void* (*point)(size_t index);
  size_t used = 0;
};
template <auto& kEntries, auto kCall>
SlotTable MakeTable() {
  return {kEntries.data(), kEntries.size(), PointsOf<kEntries, kCall>::Get};
}
// In the order of Shape.
SlotTable g_tables[] = {
    MakeTable<g_unary, Unary>(),     MakeTable<g_binary, Binary>(),
    MakeTable<g_ternary, Ternary>(), MakeTable<g_length, Length>(),
    MakeTable<g_truth, Truth>(),     MakeTable<g_assign, Assign>(),
    MakeTable<g_compare, Compare>(), MakeTable<g_contains, Contains>(),
    MakeTable<g_index, Index>(),     MakeTable<g_index_assign, IndexAssign>(),
    MakeTable<g_next, Next>(),
};

bool IsOfSequence(int offset) { return offset >= static_cast<int>(offsetof(PyHeapTypeObject, as_sequence)); }

// Where `type` keeps the slot; null when it has no such group of slots.
void** Place(PyTypeObject* type, int offset) {
  struct Group {
    int start;
    void* slots;
  };
  // In reverse order of their position in PyHeapTypeObject.
  const Group groups[] = {
      {offsetof(PyHeapTypeObject, as_sequence), type->tp_as_sequence},
      {offsetof(PyHeapTypeObject, as_mapping), type->tp_as_mapping},
      {offsetof(PyHeapTypeObject, as_number), type->tp_as_number},
      {offsetof(PyHeapTypeObject, as_async), type->tp_as_async},
  };
  for (const Group& group : groups) {
    if (offset < group.start) continue;
    if (group.slots == nullptr) return nullptr;
    return reinterpret_cast<void**>(static_cast<char*>(group.slots) + (offset - group.start));
  }
  return reinterpret_cast<void**>(reinterpret_cast<char*>(type) + offset);
}

// Calls `visit` with the place of the slot in `type` and in all its subclasses.
template <typename Visit>
void ForEachPlace(PyTypeObject* type, int offset, Visit&& visit) {
  ForEachSubclass(type, [&](PyTypeObject* each) {
    if (void** const place = Place(each, offset)) visit(place);
  });
}

template <size_t N>
const SlotName* FindName(const SlotName (&names)[N], const char* name) {
  for (const SlotName& slot : names) {
    if (std::strcmp(slot.name, name) == 0) return &slot;
  }
  return nullptr;
}

bool PatchOne(int layer, PyTypeObject* owner, int offset, const SlotName& slot, const TracedApi* api,
              PatchList* patches) {
  void** const place = Place(owner, offset);
  if (place == nullptr || *place == nullptr || !IsWritable(place)) return false;
  SlotTable& table = g_tables[static_cast<size_t>(slot.shape)];
  for (size_t i = 0; i < table.used; ++i) {
    SlotEntry& entry = table.entries[i];
    if (!entry.Is(layer, owner, offset) || *place != entry.point) continue;
    entry.apis[static_cast<size_t>(slot.part)] = api;
    return true;
  }
  // A slot that had an entry before reuses it.
  size_t at = 0;
  while (at < table.used && !table.entries[at].Is(layer, owner, offset)) ++at;
  if (at == table.size) return false;
  SlotEntry& entry = table.entries[at];
  entry.layer = layer;
  entry.owner = owner;
  entry.offset = offset;
  entry.original = *place;
  entry.point = table.point(at);
  entry.apis = {};
  entry.apis[static_cast<size_t>(slot.part)] = api;
  table.used = std::max(table.used, at + 1);
  patches->Replace(place, entry.point);
  // Not in `patches`: some subclasses may be gone when everything is restored, so the living ones are searched again.
  ForEachPlace(owner, offset, [&](void** each) {
    if (*each == entry.original && IsWritable(each)) *each = entry.point;
  });
  // A class that is created later takes its slots from the descriptors, if they agree.
  PyObject *name, *member;
  Py_ssize_t position = 0;
  while (PyDict_Next(DictOf(owner), &position, &name, &member)) {
    if (Py_TYPE(member) != &PyWrapperDescr_Type) continue;
    auto* const wrapper = reinterpret_cast<PyWrapperDescrObject*>(member);
    if (wrapper->d_base->offset == offset && wrapper->d_wrapped == entry.original) {
      patches->Replace(&wrapper->d_wrapped, entry.point);
    }
  }
  return true;
}

}  // namespace

bool PatchSlot(int layer, PyObject* descriptor, const TracedApi* api, PatchList* patches) {
  const auto* const wrapper = reinterpret_cast<PyWrapperDescrObject*>(descriptor);
  PyTypeObject* const owner = PyDescr_TYPE(wrapper);
  const int offset = wrapper->d_base->offset;
  const SlotName* const slot =
      IsOfSequence(offset) ? FindName(kSequenceNames, wrapper->d_base->name) : FindName(kNames, wrapper->d_base->name);
  if (slot == nullptr) return false;
  const bool done = PatchOne(layer, owner, offset, *slot, api, patches);
  if (done && slot->shape == Shape::kLength) {
    // There are two length slots, but only one has a descriptor.
    constexpr int kOfMapping =
        offsetof(PyHeapTypeObject, as_mapping) + static_cast<int>(offsetof(PyMappingMethods, mp_length));
    constexpr int kOfSequence =
        offsetof(PyHeapTypeObject, as_sequence) + static_cast<int>(offsetof(PySequenceMethods, sq_length));
    PatchOne(layer, owner, offset == kOfMapping ? kOfSequence : kOfMapping, *slot, api, patches);
  }
  return done;
}

void RestoreInheritedSlots(int layer) {
  for (const SlotTable& table : g_tables) {
    for (size_t i = 0; i < table.used; ++i) {
      const SlotEntry& entry = table.entries[i];
      if (entry.layer != layer) continue;
      ForEachPlace(entry.owner, entry.offset, [&](void** place) {
        if (*place == entry.point) *place = entry.original;
      });
    }
  }
}

}  // namespace torchtrace::python_dialect
