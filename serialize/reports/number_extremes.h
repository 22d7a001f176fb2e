// The numbers of many tensors, as far as stats shows them.

#ifndef TORCHTRACE_SERIALIZE_REPORTS_NUMBER_EXTREMES_H_
#define TORCHTRACE_SERIALIZE_REPORTS_NUMBER_EXTREMES_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "serialize/model/tensor_notes.h"

namespace torchtrace {

// Of the tensors that calls return and write.
struct NumberExtremes {
  uint64_t calls = 0;  // with numbers
  uint64_t calls_with_nan = 0;
  uint64_t calls_with_inf = 0;
  // Of the finite elements; least is greater than most if there are none. Damaged logs may hold NaN, which the
  // comparisons here skip.
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  double norm = 0;  // the largest of a tensor

  bool finite() const { return least <= most; }

  // The notes of one call's result, or on what it wrote.
  void AddNotes(const std::vector<TensorNote>& notes) {
    for (const TensorNote& note : notes) {
      if (!note.numbers) continue;
      const TensorNote::Numbers& numbers = *note.numbers;
      calls = 1;
      if (numbers.nans != 0) calls_with_nan = 1;
      if (numbers.positive_infinities != 0 || numbers.negative_infinities != 0) calls_with_inf = 1;
      if (numbers.finite != 0) Widen(numbers.least, numbers.most, numbers.norm);
    }
  }

  // Takes away the counts of a call that counts already, by earlier notes of it.
  void CountOnce(const NumberExtremes& counted) {
    calls -= std::min(calls, counted.calls);
    calls_with_nan -= std::min(calls_with_nan, counted.calls_with_nan);
    calls_with_inf -= std::min(calls_with_inf, counted.calls_with_inf);
  }

  void Add(const NumberExtremes& other) {
    calls += other.calls;
    calls_with_nan += other.calls_with_nan;
    calls_with_inf += other.calls_with_inf;
    Widen(other.least, other.most, other.norm);
  }

 private:
  void Widen(double other_least, double other_most, double other_norm) {
    least = std::min(least, other_least);
    most = std::max(most, other_most);
    norm = std::max(norm, other_norm);
  }
};

}  // namespace torchtrace

#endif  // TORCHTRACE_SERIALIZE_REPORTS_NUMBER_EXTREMES_H_
