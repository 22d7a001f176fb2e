// What level 2 notes of autograd for `stats --by module`: which operator made a node, and which node an operator of a
// backward pass belongs to.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_NODE_MARKS_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_NODE_MARKS_H_

#include <cstdint>

#include "serialize/model/record_facts.h"

namespace torchtrace::torch_dialect {

// Of one thread.
class NodeMarks {
 public:
  // The facts of an operator that is called now, on this thread: those of the node under way in a backward pass; else,
  // or if the last call had the same, the last node that was made since the last mark. Plain ones otherwise.
  RecordFacts Next();

 private:
  uint64_t made_ = 0;  // nodes, up to the last mark
  // Of the last backward node, whose gradients PyTorch adds up and keeps after it.
  int task_ = -1;  // of the engine
  int64_t sequence_ = -1;
  uint64_t thread_ = 0;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_NODE_MARKS_H_
