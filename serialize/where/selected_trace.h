// A view of a trace that shows only selected calls.

#ifndef TORCHTRACE_SERIALIZE_WHERE_SELECTED_TRACE_H_
#define TORCHTRACE_SERIALIZE_WHERE_SELECTED_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "serialize/trace/trace.h"
#include "serialize/where/call_selection.h"
#include "serialize/where/selected_calls.h"

namespace torchtrace {

// For readers that need the calls and their order but not their nesting: numbers, depths and parents of the calls, and
// processes(), are those of the whole trace.
class SelectedTrace final : public Trace {
 public:
  SelectedTrace(std::unique_ptr<Trace> trace, CallSelection selection)
      : trace_(std::move(trace)), selection_(std::move(selection)), calls_(trace_.get(), selection_) {}

  absl::Status Read(const Visitor& visitor) override;
  absl::Status ReadCounted(const Visitor& visitor) override;
  absl::Status ReadCounts(const Visitor& visitor) override;
  absl::StatusOr<std::vector<uint64_t>> Count() override;

  size_t config_count() const override { return trace_->config_count(); }
  size_t variant_count() const override { return trace_->variant_count(); }
  std::string_view identity(ConfigId config) const override { return trace_->identity(config); }
  std::string_view facets(VariantId variant) const override { return trace_->facets(variant); }
  ConfigId config_of(VariantId variant) const override { return trace_->config_of(variant); }
  std::string_view tags(uint32_t id) const override { return trace_->tags(id); }
  std::string_view step_tag(uint32_t id) const override { return trace_->step_tag(id); }
  const StepMarks& steps(uint32_t id) const override { return trace_->steps(id); }
  const StackTable& stacks() const override { return trace_->stacks(); }
  const std::vector<ProcessInfo>& processes() const override { return trace_->processes(); }
  LogSource log_source(size_t process) const override { return trace_->log_source(process); }

 private:
  void SetShown(RecordsShown shown) override;
  absl::Status Prepare();
  Visitor Selecting(const Visitor& visitor);

  const std::unique_ptr<Trace> trace_;
  std::optional<LaterNotesShown> later_shown_;
  std::optional<MemoryShown> memory_shown_;
  const CallSelection selection_;
  SelectedCalls calls_;
  bool prepared_ = false;
  std::optional<std::vector<uint64_t>> counts_;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_WHERE_SELECTED_TRACE_H_
