// A PyInterpreterVTable for PyTorch that forwards every call to another one: the base of classes that override a few.
// Its members are those of c10/core/impl/PyInterpreter.h in torch 2.7 to 2.15. A member that the table of this torch
// lacks overrides nothing and is never compiled. If a torch adds a member, this does not compile, which is the point.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_FORWARDING_INTERPRETER_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_FORWARDING_INTERPRETER_H_

#include <ATen/core/stack.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyInterpreter.h>

#include <string>
#include <utility>

namespace torchtrace::torch_dialect {

// `Table` is PyInterpreterVTable. This is a template because a member of one is only compiled if it is called or
// overrides.
// NOLINTBEGIN(modernize-use-override): not every torch has all of these.
template <typename Table>
class ForwardingTo : public Table {
 public:
  explicit ForwardingTo(const Table* inner) : inner_(inner) {}

  std::string name() const { return inner_->name(); }
  void incref(PyObject* pyobj) const { return inner_->incref(pyobj); }
  void decref(PyObject* pyobj) const { return inner_->decref(pyobj); }
  void decref(PyObject* pyobj, bool has_slot) const { return inner_->decref(pyobj, has_slot); }
  bool try_incref(const c10::impl::PyObjectSlot& pyobj_slot) const { return inner_->try_incref(pyobj_slot); }
  size_t refcnt(PyObject* pyobj) const { return inner_->refcnt(pyobj); }
  c10::intrusive_ptr<c10::TensorImpl> detach(const c10::TensorImpl* self) const { return inner_->detach(self); }
  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) const { return inner_->dispatch(op, stack); }
  void reportErrorCallback(PyObject* callback, c10::DispatchKey key) const {
    return inner_->reportErrorCallback(callback, key);
  }
  void python_op_registration_trampoline(const c10::OperatorHandle& op, c10::DispatchKey key,
                                         c10::DispatchKeySet keyset, torch::jit::Stack* stack, bool with_keyset,
                                         bool with_op) const {
    return inner_->python_op_registration_trampoline(op, key, keyset, stack, with_keyset, with_op);
  }
  void throw_abstract_impl_not_imported_error(std::string opname, const char* pymodule, const char* context) const {
    return inner_->throw_abstract_impl_not_imported_error(std::move(opname), pymodule, context);
  }
  void python_dispatcher(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    return inner_->python_dispatcher(op, keys, stack);
  }
  bool is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const {
    return inner_->is_contiguous(self, format);
  }
  c10::SymBool sym_is_contiguous(const c10::TensorImpl* self, at::MemoryFormat format) const {
    return inner_->sym_is_contiguous(self, format);
  }
  bool is_strides_like(const c10::TensorImpl* self, at::MemoryFormat format) const {
    return inner_->is_strides_like(self, format);
  }
  bool is_non_overlapping_and_dense(const c10::TensorImpl* self) const {
    return inner_->is_non_overlapping_and_dense(self);
  }
  c10::Device device(const c10::TensorImpl* self) const { return inner_->device(self); }
  int64_t dim(const c10::TensorImpl* self) const { return inner_->dim(self); }
  c10::IntArrayRef strides(const c10::TensorImpl* self) const { return inner_->strides(self); }
  c10::IntArrayRef sizes(const c10::TensorImpl* self) const { return inner_->sizes(self); }
  c10::SymIntArrayRef sym_sizes(const c10::TensorImpl* self) const { return inner_->sym_sizes(self); }
  c10::Layout layout(const c10::TensorImpl* self) const { return inner_->layout(self); }
  int64_t numel(const c10::TensorImpl* self) const { return inner_->numel(self); }
  c10::SymInt sym_numel(const c10::TensorImpl* self) const { return inner_->sym_numel(self); }
  c10::SymIntArrayRef sym_strides(const c10::TensorImpl* self) const { return inner_->sym_strides(self); }
  c10::SymInt sym_storage_offset(const c10::TensorImpl* self) const { return inner_->sym_storage_offset(self); }
  void trace_gpu_event_creation(c10::DeviceType device_type, uintptr_t event) const {
    return inner_->trace_gpu_event_creation(device_type, event);
  }
  void trace_gpu_event_deletion(c10::DeviceType device_type, uintptr_t event) const {
    return inner_->trace_gpu_event_deletion(device_type, event);
  }
  void trace_gpu_event_record(c10::DeviceType device_type, uintptr_t event, uintptr_t stream) const {
    return inner_->trace_gpu_event_record(device_type, event, stream);
  }
  void trace_gpu_event_wait(c10::DeviceType device_type, uintptr_t event, uintptr_t stream) const {
    return inner_->trace_gpu_event_wait(device_type, event, stream);
  }
  void trace_gpu_memory_allocation(c10::DeviceType device_type, uintptr_t ptr) const {
    return inner_->trace_gpu_memory_allocation(device_type, ptr);
  }
  void trace_gpu_memory_deallocation(c10::DeviceType device_type, uintptr_t ptr) const {
    return inner_->trace_gpu_memory_deallocation(device_type, ptr);
  }
  void trace_gpu_stream_creation(c10::DeviceType device_type, uintptr_t stream) const {
    return inner_->trace_gpu_stream_creation(device_type, stream);
  }
  void trace_gpu_device_synchronization(c10::DeviceType device_type) const {
    return inner_->trace_gpu_device_synchronization(device_type);
  }
  void trace_gpu_stream_synchronization(c10::DeviceType device_type, uintptr_t stream) const {
    return inner_->trace_gpu_stream_synchronization(device_type, stream);
  }
  void trace_gpu_event_synchronization(c10::DeviceType device_type, uintptr_t event) const {
    return inner_->trace_gpu_event_synchronization(device_type, event);
  }
  void reset_backward_hooks(const c10::TensorImpl* self) const { return inner_->reset_backward_hooks(self); }

 protected:
  const Table& inner() const { return *inner_; }

 private:
  const Table* const inner_;  // lives as long as the process
};
// NOLINTEND(modernize-use-override)

using ForwardingInterpreter = ForwardingTo<c10::impl::PyInterpreterVTable>;

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_FORWARDING_INTERPRETER_H_
