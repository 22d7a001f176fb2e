// A stack for loops that push and pop at each step.

#ifndef TORCHTRACE_SERIALIZE_BASE_REUSED_STACK_H_
#define TORCHTRACE_SERIALIZE_BASE_REUSED_STACK_H_

#include <cstddef>
#include <vector>

namespace torchtrace {

// Elements are set in place, member by member, and those that were popped are used again. A std::vector copies a
// finished element, by loads wider than the stores that have just made it: the processor waits for those.
template <typename T>
class ReusedStack {
 public:
  // The new element may have the value of one that was popped: set all of it. References to others become invalid.
  [[gnu::always_inline]] T& Push() {
    if (size_ == elements_.size()) [[unlikely]] {
      elements_.resize(2 * size_ + 8);
    }
    return elements_[size_++];
  }
  void Pop() { --size_; }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& back() { return elements_[size_ - 1]; }
  const T& back() const { return elements_[size_ - 1]; }
  // From the first pushed one.
  T& operator[](size_t i) { return elements_[i]; }
  const T& operator[](size_t i) const { return elements_[i]; }
  T* begin() { return elements_.data(); }
  T* end() { return elements_.data() + size_; }
  const T* begin() const { return elements_.data(); }
  const T* end() const { return elements_.data() + size_; }

 private:
  std::vector<T> elements_;
  size_t size_ = 0;
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_REUSED_STACK_H_
