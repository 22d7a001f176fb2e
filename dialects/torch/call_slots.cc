#include "dialects/torch/call_slots.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "dialects/python/builtin_identity.h"
#include "dialects/torch/python_call.h"

namespace torchtrace::torch_dialect {

struct CallSlot {
  enum State : char { kUnknown, kLearned, kNever };
  State state = kUnknown;
  bool method = false;  // self is the first argument
  bool single = false;  // args is the argument itself: METH_O, or a property's value
  bool getter = false;  // a property's read
  const Api* api = nullptr;
  // A function's place, what was there and what is put there.
  PyMethodDef* definition = nullptr;
  PyCFunction original = nullptr;
  PyCFunction entry = nullptr;
};

namespace {

constexpr size_t kMaxFunctions = 3072;

CallSlotOptions g_options;
std::array<CallSlot, kMaxFunctions> g_functions;
size_t g_function_count = 0;
bool g_installed = false;

// A property's place and what was there.
struct Property {
  CallSlot get_slot;
  CallSlot set_slot;
  PyGetSetDef* definition = nullptr;
  getter get = nullptr;
  setter set = nullptr;
  void* closure = nullptr;
};
std::deque<Property> g_properties;

// Marks the thread as learning `slot` while it lives.
class Learning {
 public:
  Learning(const CallSlot* slot, PyObject* self, PyObject* args, PyObject* kwargs) {
    ThreadState& state = t_state;
    state.learning = slot;
    state.learning_self = self;
    state.learning_args = args;
    state.learning_kwargs = kwargs;
  }
  ~Learning() { t_state.learning = nullptr; }
  Learning(const Learning&) = delete;
};

// `call` runs the original function.
template <typename Call>
PyObject* CallThrough(const CallSlot& slot, PyObject* self, PyObject* args, PyObject* kwargs, Call&& call) {
  // A thread that was there before torch, or came from C++. In a backward pass
  // autograd has lent the thread the levels of the one that called it.
  if (!ThisThreadIsArmed() && torch::autograd::get_current_graph_task_id() == -1) ArmThisThread();
  if (slot.state == CallSlot::kNever || g_options.mode == nullptr || !g_options.mode->OnTop()) return call();
  if (slot.state == CallSlot::kLearned) {
    if (slot.getter && !g_options.include_getters) {
      if (t_state.Recording()) t_state.recorder->CountGetter();
      const WithoutTopMode without;
      return call();
    }
    const bool recorded = BeginCall(*slot.api, {slot.method ? self : nullptr, args, kwargs, slot.single});
    PyObject* result;
    {
      const WithoutTopMode without;
      result = call();
    }
    if (recorded) EndCall(result);
    return result;
  }
  if (t_state.learning != nullptr) return call();
  const Learning learning(&slot, self, args, kwargs);
  return call();
}

[[gnu::noinline]] PyObject* CallThree(size_t index, PyObject* self, PyObject* args, PyObject* kwargs) {
  const CallSlot& slot = g_functions[index];
  const auto original = reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(slot.original));
  return CallThrough(slot, self, args, kwargs, [&] { return original(self, args, kwargs); });
}

[[gnu::noinline]] PyObject* CallTwo(size_t index, PyObject* self, PyObject* args) {
  const CallSlot& slot = g_functions[index];
  return CallThrough(slot, self, args, nullptr, [&] { return slot.original(self, args); });
}

PyObject* GetProperty(PyObject* self, void* closure) {
  const Property& property = *static_cast<Property*>(closure);
  return CallThrough(property.get_slot, self, nullptr, nullptr, [&] { return property.get(self, property.closure); });
}

int SetProperty(PyObject* self, PyObject* value, void* closure) {
  const Property& property = *static_cast<Property*>(closure);
  // A deletion: another API, and rare.
  if (value == nullptr) return property.set(self, value, property.closure);
  const auto set = [&] { return property.set(self, value, property.closure) == 0 ? Py_None : nullptr; };
  return CallThrough(property.set_slot, self, value, nullptr, set) == nullptr ? -1 : 0;
}

// C has no closures: every slot needs an entry point of its own, as small as
// can be.
template <size_t N>
PyObject* EnterThree(PyObject* self, PyObject* args, PyObject* kwargs) {
  return CallThree(N, self, args, kwargs);
}
template <size_t N>
PyObject* EnterTwo(PyObject* self, PyObject* args) {
  return CallTwo(N, self, args);
}

struct EntryPoints {
  PyCFunctionWithKeywords three;
  PyCFunction two;
};
template <size_t... N>
constexpr std::array<EntryPoints, sizeof...(N)> MakeEntryPoints(std::index_sequence<N...>) {
  return {{{EnterThree<N>, EnterTwo<N>}...}};
}
constexpr std::array<EntryPoints, kMaxFunctions> kEntryPoints =
    MakeEntryPoints(std::make_index_sequence<kMaxFunctions>());

void AddFunction(PyMethodDef* definition, bool method) {
  constexpr int kConvention = METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL | METH_METHOD;
  const int convention = definition->ml_flags & kConvention;
  const bool three = convention == (METH_VARARGS | METH_KEYWORDS);
  const bool two = convention == METH_VARARGS || convention == METH_NOARGS || convention == METH_O;
  if ((!three && !two) || g_function_count == kMaxFunctions) return;
  CallSlot& slot = g_functions[g_function_count];
  slot.method = method;
  slot.single = convention == METH_O;
  slot.definition = definition;
  slot.original = definition->ml_meth;
  const EntryPoints& entry = kEntryPoints[g_function_count];
  slot.entry = three ? reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(entry.three)) : entry.two;
  python_dialect::KeepBuiltin(definition, slot.original);
  definition->ml_meth = slot.entry;
  ++g_function_count;
}

void PutProperty(Property* property) {
  PyGetSetDef* const definition = property->definition;
  definition->get = GetProperty;
  if (definition->set != nullptr) definition->set = SetProperty;
  definition->closure = property;
}

void AddProperty(PyGetSetDef* definition) {
  if (definition->get == nullptr) return;
  Property& property = g_properties.emplace_back();
  property.get_slot.method = true;
  property.get_slot.getter = true;
  property.set_slot.method = true;
  property.set_slot.single = true;
  property.definition = definition;
  property.get = definition->get;
  property.set = definition->set;
  property.closure = definition->closure;
  PutProperty(&property);
}

PyObject* Find(const char* module_name, const char* attribute) {
  PyObject* const module = PyImport_ImportModule(module_name);
  PyObject* found = module;
  if (module != nullptr && attribute != nullptr) {
    found = PyObject_GetAttrString(module, attribute);
    Py_DECREF(module);
  }
  if (found == nullptr) PyErr_Clear();
  return found;
}

void AddTypeMembers(PyTypeObject* type) {
  PyObject *name, *member;
  Py_ssize_t position = 0;
  while (PyDict_Next(type->tp_dict, &position, &name, &member)) {
    if (Py_TYPE(member) == &PyMethodDescr_Type) {
      AddFunction(reinterpret_cast<PyMethodDescrObject*>(member)->d_method, true);
    } else if (Py_TYPE(member) == &PyGetSetDescr_Type) {
      AddProperty(reinterpret_cast<PyGetSetDescrObject*>(member)->d_getset);
    }
  }
}

// Functions of a module, or static methods of a type.
void AddFunctions(PyObject* owner) {
  PyObject* const dict =
      PyType_Check(owner) ? reinterpret_cast<PyTypeObject*>(owner)->tp_dict : PyModule_GetDict(owner);
  PyObject *name, *member;
  Py_ssize_t position = 0;
  std::vector<PyObject*> names;
  while (PyDict_Next(dict, &position, &name, &member)) names.push_back(name);
  for (PyObject* each : names) {
    PyObject* const function = PyObject_GetAttr(owner, each);
    if (function == nullptr) {
      PyErr_Clear();
      continue;
    }
    if (Py_TYPE(function) == &PyCFunction_Type) {
      AddFunction(reinterpret_cast<PyCFunctionObject*>(function)->m_ml, false);
    }
    Py_DECREF(function);
  }
}

bool SameArguments(const CallSlot& slot, PyObject* told) {
  if (told == nullptr || !PyTuple_Check(told)) return false;
  const ThreadState& state = t_state;
  Py_ssize_t at = 0;
  const Py_ssize_t count = PyTuple_GET_SIZE(told);
  if (slot.method && (count == 0 || PyTuple_GET_ITEM(told, at++) != state.learning_self)) return false;
  PyObject* const args = state.learning_args;
  if (args == nullptr) return at == count;
  if (slot.single) return at + 1 == count && PyTuple_GET_ITEM(told, at) == args;
  if (count - at != PyTuple_GET_SIZE(args)) return false;
  for (Py_ssize_t i = 0; at < count; ++i, ++at) {
    if (PyTuple_GET_ITEM(told, at) != PyTuple_GET_ITEM(args, i)) return false;
  }
  return true;
}

Py_ssize_t DictSize(PyObject* dict) { return dict == nullptr || !PyDict_Check(dict) ? 0 : PyDict_GET_SIZE(dict); }

bool SameKeywords(PyObject* told) {
  PyObject* const mine = t_state.learning_kwargs;
  if (DictSize(told) != DictSize(mine)) return false;
  if (DictSize(told) == 0) return true;
  PyObject *name, *value;
  Py_ssize_t position = 0;
  while (PyDict_Next(mine, &position, &name, &value)) {
    if (PyDict_GetItemWithError(told, name) != value) return false;
  }
  return true;
}

}  // namespace

void LearnCall(PyObject* function, PyObject* args, PyObject* kwargs) {
  // Slots are constant to all but this function and the two below.
  auto* const slot = const_cast<CallSlot*>(t_state.learning);
  t_state.learning = nullptr;
  if (slot == nullptr) return;
  slot->api = SameArguments(*slot, args) && SameKeywords(kwargs) ? g_options.names->ResolveLasting(function) : nullptr;
  slot->state = slot->api != nullptr ? CallSlot::kLearned : CallSlot::kNever;
}

void InstallCallSlots(const CallSlotOptions& options) {
  g_options = options;
  if (std::exchange(g_installed, true)) return;
  python_dialect::StartKeepingBuiltins();
  if (g_function_count > 0) {
    // They were there before: calls may be under way in them, so each keeps its place.
    for (size_t i = 0; i < g_function_count; ++i) g_functions[i].definition->ml_meth = g_functions[i].entry;
    for (Property& property : g_properties) PutProperty(&property);
    return;
  }
  if (PyObject* const base = Find("torch._C", "TensorBase")) {
    AddTypeMembers(reinterpret_cast<PyTypeObject*>(base));
    Py_DECREF(base);
  }
  if (PyObject* const functions = Find("torch._C", "_VariableFunctionsClass")) {
    AddFunctions(functions);
    Py_DECREF(functions);
  }
  for (const char* name : {"torch._C._nn", "torch._C._fft", "torch._C._linalg", "torch._C._nested", "torch._C._sparse",
                           "torch._C._special"}) {
    if (PyObject* const module = Find(name, nullptr)) {
      AddFunctions(module);
      Py_DECREF(module);
    }
  }
}

void UninstallCallSlots() {
  if (!std::exchange(g_installed, false)) return;
  for (size_t i = g_function_count; i-- > 0;) g_functions[i].definition->ml_meth = g_functions[i].original;
  python_dialect::StopKeepingBuiltins();
  for (auto property = g_properties.rbegin(); property != g_properties.rend(); ++property) {
    property->definition->get = property->get;
    property->definition->set = property->set;
    property->definition->closure = property->closure;
  }
  // Calls may be under way in other threads' frames: the slots stay.
}

}  // namespace torchtrace::torch_dialect
