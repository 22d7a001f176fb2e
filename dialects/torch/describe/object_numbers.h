// Numbers for torch's reference-counted objects (tensors, storages), each unique however often memory is used again.
//
// An object is known by its address, until it ends. How its end is known: the entry for deleting objects in the virtual
// table of its class is replaced, once for each class, by one that forgets the object and then does as before. Nothing
// is kept alive, and nothing of an object is changed; a weak reference would keep its memory, and of some classes all
// that it refers to.

#ifndef TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OBJECT_NUMBERS_H_
#define TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OBJECT_NUMBERS_H_

#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <vector>

namespace torchtrace::torch_dialect {

// Objects get numbers from here on, from 1 in the order in which they are asked for. Any thread; a forked process goes
// on with the numbers that there were.
void BeginObjectNumbers();
// No more, and all are forgotten. The replaced entries stay, at the cost of a load for each object that ends.
void EndObjectNumbers();

// The object's number, the same as long as it lives; 0: it can't be told, or numbers aren't given. The caller holds a
// reference. Runs no code of anyone's.
uint64_t NumberOf(const c10::intrusive_ptr_target& object);

// The last number that was given, and the numbers above `least` whose objects live, in order.
uint64_t LastNumber();
std::vector<uint64_t> LivingNumbers(uint64_t least);

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DESCRIBE_OBJECT_NUMBERS_H_
