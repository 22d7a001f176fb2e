// What a call was given, for its end.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_KEPT_ARGUMENTS_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_KEPT_ARGUMENTS_H_

#include <ATen/core/ivalue.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace torchtrace::torch_dialect {

// The arguments that a call had, from its beginning to its end. Weak references: its kernel may count strong ones
// (Tensor._use_count), and those of the tensors in a list are its own, as the list may be made for the call.
class KeptArguments {
 public:
  void Keep(c10::ArrayRef<c10::IValue> arguments) {
    arguments_.reserve(arguments.size());
    for (const c10::IValue& argument : arguments) {
      Argument& kept = arguments_.emplace_back();
      kept.is_list = argument.isList();
      if (!kept.is_list) {
        kept.items.emplace_back(argument);
      } else {
        for (const c10::IValue& item : argument.toListRef()) kept.items.emplace_back(item);
      }
      tensors_ += CountTensors(argument);
    }
  }
  size_t size() const { return arguments_.size(); }
  // Nothing if a tensor is gone: the places of the others among the call's tensors are unknown then.
  std::optional<std::vector<c10::IValue>> Lock() const {
    std::vector<c10::IValue> arguments;
    size_t tensors = 0;
    for (const Argument& kept : arguments_) {
      if (!kept.is_list) {
        arguments.push_back(kept.items[0].lock());
      } else {
        c10::impl::GenericList list(c10::AnyType::get());
        for (const c10::WeakIValue& item : kept.items) list.push_back(item.lock());
        arguments.emplace_back(std::move(list));
      }
      tensors += CountTensors(arguments.back());
    }
    return tensors == tensors_ ? std::optional(std::move(arguments)) : std::nullopt;
  }

 private:
  struct Argument {
    bool is_list = false;
    std::vector<c10::WeakIValue> items;  // a list's, or the argument alone
  };

  // With what else may have some.
  static size_t CountTensors(const c10::IValue& value) {
    if (value.isTensor()) return value.toTensor().defined();
    if (value.isGenericDict() || value.isTuple()) return 1;
    size_t count = 0;
    if (value.isList()) {
      for (const c10::IValue& item : value.toListRef()) count += CountTensors(item);
    }
    return count;
  }

  std::vector<Argument> arguments_;
  size_t tensors_ = 0;
};

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_KEPT_ARGUMENTS_H_
