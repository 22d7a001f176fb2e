// What the calls of a config mean where NaN and infinities are looked for, by its name and arguments.

#ifndef TORCHTRACE_SERIALIZE_NUMBERS_NAN_CALL_KIND_H_
#define TORCHTRACE_SERIALIZE_NUMBERS_NAN_CALL_KIND_H_

#include "serialize/model/config.h"
#include "serialize/numbers/memory_effects.h"

namespace torchtrace {

// What the arguments hold themselves, beside tensors and factors (`alpha`).
struct NanLiterals {
  bool infinity = false;
  bool nan = false;
  bool array = false;  // NumPy's, or another object with data
};

struct NanCallKind {
  bool known = false;
  bool module = false;
  MemoryEffects memory;
  bool batch_norm = false;    // writes its running statistics, which its schema doesn't say
  bool many_tensors = false;  // _foreach_, _fused_: of optimizers
  bool backward = false;
  bool backward_name = false;
  bool begins_scope = false, ends_scope = false, optimizer = false;
  bool constant = false;  // makes a tensor of the program's literals
  bool reads = false;     // brings data from outside
  bool lifts = false;     // aten::lift_fresh: what torch.tensor made
  bool is_aten = false;
  bool gives_nan = false;  // as an argument
  NanLiterals literals;
};

NanCallKind NanCallKindOf(const Config& config);

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_NUMBERS_NAN_CALL_KIND_H_
