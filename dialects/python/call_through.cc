#include "dialects/python/call_through.h"

namespace torchtrace::python_dialect {

CallOptions g_call_options;
thread_local CallState t_calls;

}  // namespace torchtrace::python_dialect
