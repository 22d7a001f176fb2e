// Level 1's mode object and its place on PyTorch's function-mode stack.

#ifndef TORCHTRACE_DIALECTS_TORCH_FUNCTION_MODE_H_
#define TORCHTRACE_DIALECTS_TORCH_FUNCTION_MODE_H_

#include <ATen/PythonTorchFunctionTLS.h>
#include <Python.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/PyInterpreter.h>

#include <memory>
#include <utility>
#include <vector>

namespace torchtrace::torch_dialect {

class FunctionMode {
 public:
  // Takes over a reference to the Python mode. It is never released: threads
  // may hold it on their stacks until the process ends.
  explicit FunctionMode(PyObject* mode)
      : object_(mode),
        interpreter_(getPyInterpreter()),
        stacked_(std::make_shared<c10::SafePyObject>(mode, interpreter_)) {}

  // True when the next overridable call on this thread would reach this mode.
  bool OnTop() const {
    using Stack = at::impl::PythonTorchFunctionTLS;
    const int64_t modes = Stack::stack_len();
    return modes > 0 && Stack::get_disabled_state() != at::impl::ALL_DISABLED &&
           Stack::get_stack_at(modes - 1)->ptr(interpreter_) == object_ && !Stack::peek_skip_next();
  }

  bool Is(const PyObject* object) const { return object == object_; }
  PyObject* object() const { return object_; }

  static int64_t StackLength() { return at::impl::PythonTorchFunctionTLS::stack_len(); }

  // It stands under all modes of the program, or isn't on this thread's stack.
  bool AtBottom() const {
    return StackLength() > 0 && at::impl::PythonTorchFunctionTLS::get_stack_at(0)->ptr(interpreter_) == object_;
  }

  void PushOnThisThread() const { at::impl::PythonTorchFunctionTLS::push_onto_stack(stacked_); }

  void PushUnderOthers() const {
    if (AtBottom()) return;
    std::vector<std::shared_ptr<c10::SafePyObject>> others = PopAll();
    PushOnThisThread();
    PushAll(std::move(others));
  }

  // False: it wasn't there.
  bool RemoveFromThisThread() const {
    if (!AtBottom()) return false;
    std::vector<std::shared_ptr<c10::SafePyObject>> others = PopAll();
    others.pop_back();
    PushAll(std::move(others));
    return true;
  }

 private:
  // The topmost mode first.
  static std::vector<std::shared_ptr<c10::SafePyObject>> PopAll() {
    using Stack = at::impl::PythonTorchFunctionTLS;
    std::vector<std::shared_ptr<c10::SafePyObject>> modes;
    while (Stack::stack_len() > 0) modes.push_back(Stack::pop_stack());
    return modes;
  }
  static void PushAll(std::vector<std::shared_ptr<c10::SafePyObject>> modes) {
    for (auto mode = modes.rbegin(); mode != modes.rend(); ++mode) {
      at::impl::PythonTorchFunctionTLS::push_onto_stack(std::move(*mode));
    }
  }

  // PyTorch and Python pop and push modes in new holders: the object tells.
  PyObject* const object_;
  c10::impl::PyInterpreter* const interpreter_;
  const std::shared_ptr<c10::SafePyObject> stacked_;
};

// Takes the top mode off while it lives.
class WithoutTopMode {
 public:
  WithoutTopMode() : mode_(at::impl::PythonTorchFunctionTLS::pop_stack()) {}
  ~WithoutTopMode() { at::impl::PythonTorchFunctionTLS::push_onto_stack(std::move(mode_)); }
  WithoutTopMode(const WithoutTopMode&) = delete;

 private:
  std::shared_ptr<c10::SafePyObject> mode_;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_FUNCTION_MODE_H_
