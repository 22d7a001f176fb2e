// Sums that stop at the greatest and least number: damaged files have terms of any size.

#ifndef TORCHTRACE_SERIALIZE_BASE_SATURATING_H_
#define TORCHTRACE_SERIALIZE_BASE_SATURATING_H_

#include <concepts>
#include <limits>
#include <type_traits>

namespace torchtrace {

template <std::integral T>
void AddSaturating(std::type_identity_t<T> term, T* sum) {
  if (!__builtin_add_overflow(*sum, term, sum)) return;
  *sum = term < 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
}

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_BASE_SATURATING_H_
