// A trace whose parts are compared with one another.

#ifndef TORCHTRACE_SERIALIZE_DIFF_ONE_TRACE_H_
#define TORCHTRACE_SERIALIZE_DIFF_ONE_TRACE_H_

#include <string>

#include "serialize/diff/config_diff.h"

namespace torchtrace {

struct OneTraceDiffOptions {
  DiffScope scope;
  std::string name;  // of the trace
  bool json = false;
  bool color = false;  // text only
  bool all = false;    // all differences, not the first ones alone
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_DIFF_ONE_TRACE_H_
