// Python.h first, as it demands.
#define PY_SSIZE_T_CLEAN
#include "dialects/python/describe/object_names.h"

#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <unordered_map>

#include "serialize/base/text.h"

namespace torchtrace {
namespace {

template <typename Char>
uint64_t Utf8Bytes(const Char* text, size_t length) {
  uint64_t bytes = length;
  for (size_t i = 0; i < length; ++i) {
    bytes += text[i] >= 0x80;
    if constexpr (sizeof(Char) > 1) bytes += text[i] >= 0x800;
    if constexpr (sizeof(Char) > 2) bytes += text[i] >= 0x10000;
  }
  return bytes;
}

template <typename Char>
uint64_t Encode(PyObject* text, size_t most_bytes, std::string* out) {
  const auto* const data = static_cast<const Char*>(PyUnicode_DATA(text));
  const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(text));
  for (size_t i = 0; i < length; ++i) {
    const size_t before = out->size();
    AppendUtf8(data[i], out);
    if (out->size() <= most_bytes) continue;
    out->resize(before);
    break;
  }
  return Utf8Bytes(data, length);
}

}  // namespace

PythonText::PythonText(PyObject* text, size_t most_bytes) {
  if (!IsText(text)) return;
  if (PyUnicode_IS_ASCII(text)) {
    kept_ = AsciiText(text).substr(0, most_bytes);
    whole_bytes_ = AsciiText(text).size();
    return;
  }
  switch (PyUnicode_KIND(text)) {
    case PyUnicode_1BYTE_KIND:
      whole_bytes_ = Encode<Py_UCS1>(text, most_bytes, &encoded_);
      break;
    case PyUnicode_2BYTE_KIND:
      whole_bytes_ = Encode<Py_UCS2>(text, most_bytes, &encoded_);
      break;
    default:
      whole_bytes_ = Encode<Py_UCS4>(text, most_bytes, &encoded_);
  }
  kept_ = encoded_;
}

namespace {

constexpr size_t kLimbs = kMaxIntBits / 32;
using Limbs = std::array<uint32_t, kLimbs>;  // least significant first

// The magnitude of an int of at most kMaxIntBits.
Limbs Magnitude(PyObject* number, bool negative) {
  unsigned char bytes[kMaxIntBits / 8 + 1];  // and a sign
  CopyBytes(number, bytes, sizeof bytes);
  Limbs limbs;
  std::memcpy(limbs.data(), bytes, sizeof limbs);
  if (!negative) return limbs;
  uint64_t carry = 1;
  for (uint32_t& limb : limbs) {
    carry += static_cast<uint32_t>(~limb);
    limb = static_cast<uint32_t>(carry);
    carry >>= 32;
  }
  return limbs;
}

}  // namespace

std::string IntDigits(PyObject* number) {
  const bool negative = SignOf(number) < 0;
  const auto bits = BitsOf(number);
  if (bits > kMaxIntBits) return (negative ? "-" : "") + std::to_string(bits) + " bits";

  Limbs limbs = Magnitude(number, negative);
  size_t used = (bits + 31) / 32;
  std::string digits;  // least significant first
  do {
    constexpr uint32_t kBase = 1'000'000'000;
    constexpr int kBaseDigits = 9;
    uint64_t rest = 0;
    for (size_t i = used; i-- > 0;) {
      rest = rest << 32 | limbs[i];
      limbs[i] = static_cast<uint32_t>(rest / kBase);
      rest %= kBase;
    }
    while (used > 0 && limbs[used - 1] == 0) --used;
    for (int i = 0; i < kBaseDigits && (used > 0 || rest > 0); ++i, rest /= 10) {
      digits.push_back(static_cast<char>('0' + rest % 10));
    }
  } while (used > 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  return digits;
}

namespace {

// A heap type's __module__ as the class statement stored it.
std::string ModuleOf(PyTypeObject* type) {
  PyObject* const dict = DictOf(type);
  return dict == nullptr ? "" : TextOf(FindInDict(dict, "__module__"));
}

std::string Dotted(const std::string& module, const std::string& name) {
  return module.empty() || module == "builtins" ? name : module + "." + name;
}

// The function behind a property, staticmethod or classmethod in a dictionary.
PyObject* FunctionIn(PyObject* member) {
  const PyTypeObject* const type = Py_TYPE(member);
  if (type == &PyProperty_Type) return StructMember(member, "fget");
  if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) return StructMember(member, "__func__");
  return member;
}

// Whether the object can be found under this name: in a module, or in classes in it.
bool StandsAt(const std::string& module, std::string_view qualname, PyObject* object) {
  PyObject* found = FindInDict(PyImport_GetModuleDict(), module);
  while (found != nullptr && !qualname.empty()) {
    PyObject* const dict = PyModule_Check(found) ? PyModule_GetDict(found)
                           : PyType_Check(found) ? DictOf(reinterpret_cast<PyTypeObject*>(found))
                                                 : nullptr;
    const std::string_view name = qualname.substr(0, qualname.find('.'));
    qualname.remove_prefix(std::min(name.size() + 1, qualname.size()));
    found = dict == nullptr ? nullptr : FindInDict(dict, name);
  }
  return found != nullptr && FunctionIn(found) == object;
}

// Decorators give functions the name of what they decorate. If the function isn't found under that name
// (functools.wraps(torch.relu)), we take the name under which it was defined.
std::string FunctionName(PyFunctionObject* function) {
  const std::string module = TextOf(function->func_module), name = TextOf(function->func_qualname);
  const std::string home = TextOf(FindInDict(function->func_globals, "__name__"));
  const std::string defined = TextOf(QualifiedName(reinterpret_cast<PyCodeObject*>(function->func_code)));
  const bool is_own = module == home && (name == defined || name.ends_with("." + defined));
  if (is_own || StandsAt(module, name, reinterpret_cast<PyObject*>(function))) return Dotted(module, name);
  return Dotted(home, defined);
}

}  // namespace

PyObject* StructMember(PyObject* object, std::string_view name) {
  for (const PyTypeObject* type = Py_TYPE(object); type != nullptr; type = type->tp_base) {
    const PyMemberDef* field = type->tp_members;
    for (; field != nullptr && field->name != nullptr; ++field) {
      if (field->name != name) continue;
      PyObject* const member = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + field->offset);
      return member == Py_None ? nullptr : member;
    }
  }
  return nullptr;
}

std::string TypeName(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return type->tp_name;
  return Dotted(ModuleOf(type), TextOf(reinterpret_cast<PyHeapTypeObject*>(type)->ht_qualname));
}

namespace {

TypeFacts LookUp(PyTypeObject* type) {
  TypeFacts facts = {.name = TypeName(type)};
  PyObject* const dict = DictOf(type);
  // Enumerations have a metaclass.
  if (dict == nullptr || Py_TYPE(type) == &PyType_Type) return facts;
  facts.python_enum = FindInDict(dict, "_member_map_") != nullptr;
  PyObject* const entries = FindInDict(dict, "__entries");
  if (entries != nullptr && PyDict_Check(entries)) facts.entries = entries;
  return facts;
}

// The suffix that identifies an enumeration's member; empty for other objects.
std::string MemberOfEnum(PyObject* object, const TypeFacts& facts) {
  if (facts.python_enum) {
    PyObject* const name = InstanceAttribute(object, "_name_");
    if (name != nullptr && PyUnicode_Check(name)) return "." + TextOf(name);
    PyObject* const value = InstanceAttribute(object, "_value_");
    return value != nullptr && PyLong_Check(value) ? "(" + IntDigits(value) + ")" : "";
  }
  if (facts.entries != nullptr) {
    PyObject *name, *entry;
    Py_ssize_t position = 0;
    while (PyDict_Next(facts.entries, &position, &name, &entry)) {
      if (PyTuple_Check(entry) && PyTuple_GET_SIZE(entry) > 0 && PyTuple_GET_ITEM(entry, 0) == object) {
        return "." + TextOf(name);
      }
    }
  }
  return "";
}

}  // namespace

const TypeFacts& FactsOf(PyTypeObject* type) {
  struct Known {
    TypeState state;
    TypeFacts facts;
  };
  // By address: a type may be gone.
  static auto* const types = new std::unordered_map<PyTypeObject*, Known>();
  static auto* const uncached = new TypeFacts();
  constexpr size_t kMaxTypes = 1000;
  const auto found = types->find(type);
  if (found != types->end() && found->second.state.IsOf(type)) return found->second.facts;
  if (TypeVersion(type) == 0) return *uncached = LookUp(type);
  if (types->size() >= kMaxTypes) {
    for (auto& [_, known] : *types) known.state.Forget();
    types->clear();
  }
  Known& known = (*types)[type];
  known.state.Take(type);
  return known.facts = LookUp(type);
}

std::string ObjectName(PyObject* object) {
  const TypeFacts& facts = FactsOf(Py_TYPE(object));
  return facts.name + MemberOfEnum(object, facts);
}

std::string CallableName(PyObject* callable) {
  if (PyMethod_Check(callable)) return CallableName(PyMethod_GET_FUNCTION(callable));
  if (PyFunction_Check(callable)) return FunctionName(reinterpret_cast<PyFunctionObject*>(callable));
  if (PyCFunction_Check(callable)) {
    const auto* const function = reinterpret_cast<PyCFunctionObject*>(callable);
    if (function->m_self != nullptr && PyType_Check(function->m_self)) {
      return TypeName(reinterpret_cast<PyTypeObject*>(function->m_self)) + "." + function->m_ml->ml_name;
    }
    // A bound method.
    if (function->m_self != nullptr && function->m_module == nullptr && !PyCapsule_CheckExact(function->m_self)) {
      return TypeName(Py_TYPE(function->m_self)) + "." + function->m_ml->ml_name;
    }
    return Dotted(TextOf(function->m_module), function->m_ml->ml_name);
  }
  PyTypeObject* const type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == &PyGetSetDescr_Type) {
    const auto* const descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return TypeName(descriptor->d_type) + "." + TextOf(descriptor->d_name);
  }
  return TypeName(type);
}

}  // namespace torchtrace
