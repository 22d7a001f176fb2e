#include "dialects/torch/dispatch/node_marks.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

namespace torchtrace::torch_dialect {

RecordFacts NodeMarks::Next() {
  RecordFacts facts;
  const uint64_t made = at::sequence_number::peek();
  const int task = torch::autograd::get_current_graph_task_id();
  if (task >= 0) {
    facts.scope = kBackwardScope;
    const bool goes_on = task == task_;
    if (!goes_on) {
      task_ = task;
      sequence_ = -1;
      thread_ = 0;
    }
    const int64_t before = sequence_;
    const uint64_t thread_before = thread_;
    // Nodes that accumulate gradients have no number of their own: they follow the node that made the gradient.
    if (const auto node = torch::autograd::get_current_node(); node && static_cast<int64_t>(node->sequence_nr()) >= 0) {
      sequence_ = static_cast<int64_t>(node->sequence_nr());
      thread_ = node->thread_id();
    }
    if (!goes_on || made == made_ || sequence_ != before || thread_ != thread_before) {
      facts.thread = at::RecordFunction::currentThreadId();
      facts.sequence = sequence_;
      facts.forward_thread = thread_;
      return facts;
    }
  }
  if (made == made_) return facts;
  made_ = made;
  facts.thread = at::RecordFunction::currentThreadId();
  facts.sequence = static_cast<int64_t>(made) - 1;
  return facts;
}

}  // namespace torchtrace::torch_dialect
