#include "dialects/python/setattr/call_through.h"
#include "dialects/python/setattr/patch_list.h"
#include "dialects/python/setattr/patches.h"
#include "tracer/python/python_patch.h"

namespace torchtrace::python_dialect {
namespace {

// One for each definition, never freed. It is the definition's closure.
struct PropertyEntry {
  const Layer* layer;
  const TracedApi* get_api;
  const TracedApi* set_api;
  getter get;
  setter set;
  void* closure;
};

PyObject* Get(PyObject* self, void* closure) {
  const PropertyEntry& entry = *static_cast<PropertyEntry*>(closure);
  const auto call = [&] { return entry.get(self, entry.closure); };
  if (entry.get_api == nullptr) return call();
  return CallThrough(*entry.layer, *entry.get_api, {self, nullptr, 0, nullptr, nullptr}, call);
}

int Set(PyObject* self, PyObject* value, void* closure) {
  const PropertyEntry& entry = *static_cast<PropertyEntry*>(closure);
  // Deletions are another API, and rare.
  if (entry.set_api == nullptr || value == nullptr) return entry.set(self, value, entry.closure);
  const auto call = [&] { return entry.set(self, value, entry.closure) == 0 ? Py_None : nullptr; };
  return CallThrough(*entry.layer, *entry.set_api, {self, &value, 1, nullptr, nullptr}, call) == nullptr ? -1 : 0;
}

}  // namespace

bool PatchProperty(int layer, PyGetSetDef* definition, const TracedApi* get, const TracedApi* set, PatchList* patches) {
  if (definition->get == nullptr) get = nullptr;
  if (definition->set == nullptr) set = nullptr;
  if ((get == nullptr && set == nullptr) || !IsWritable(definition)) return false;
  static auto* const entries = new PointerMap<PropertyEntry>[kLayers];
  PropertyEntry* entry = entries[layer].Find(definition);
  if (entry == nullptr) entries[layer].Insert(definition, entry = new PropertyEntry());
  *entry = {&g_layers[layer], get, set, definition->get, definition->set, definition->closure};
  // Getter and setter share the closure, so both are replaced.
  if (definition->get != nullptr) patches->Replace(&definition->get, static_cast<getter>(Get));
  if (definition->set != nullptr) patches->Replace(&definition->set, static_cast<setter>(Set));
  patches->Replace(&definition->closure, static_cast<void*>(entry));
  return true;
}

}  // namespace torchtrace::python_dialect
