#include "dialects/python/setattr/call_through.h"

namespace torchtrace::python_dialect {

Layer g_layers[kLayers];
thread_local int t_depth TORCHTRACE_STATIC_TLS = 0;

}  // namespace torchtrace::python_dialect
