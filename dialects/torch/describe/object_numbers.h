// Numbers for torch's reference-counted objects (tensors, storages), which stay unique when memory is used again.
//
// An object is identified by its address until it is deleted. To notice that, the deleting entry in the virtual table
// of its class is replaced, once per class, by one that forgets the object and then calls the real one. No object is
// changed or kept alive; a weak reference would keep its memory, and for some classes everything that it refers to.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OBJECT_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OBJECT_NUMBERS_H_

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dialects/torch/describe/storage_state.h"

namespace torchtrace::torch_dialect {

// From now on objects get numbers, from 1 in the order in which NumberOf is called for them. Any thread. A forked
// process continues its parent's numbers.
void BeginObjectNumbers();
// Stops that and forgets all numbers. The replaced entries stay, at the cost of a load for each deleted object.
void EndObjectNumbers();

// The object's number, which stays the same while it lives; 0: its class can't be watched, or numbers are off. The
// caller holds a reference. Calls no code of the program.
uint64_t NumberOf(const c10::intrusive_ptr_target& object);

// The same of a tensor and its storage.
struct TensorNumber {
  uint64_t tensor = 0;
  uint64_t storage = 0;
  std::shared_ptr<StorageState> state;  // what is remembered of the storage as long as it lives
};
// `storage`: may be null. `with_state`: the result has a state if the storage has a number.
TensorNumber NumberOf(const c10::intrusive_ptr_target& tensor, const c10::intrusive_ptr_target* storage,
                      bool with_state);

// The last number that was given, and the numbers above `least` whose objects live, in order.
uint64_t LastNumber();
std::vector<uint64_t> LivingNumbers(uint64_t least);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OBJECT_NUMBERS_H_
