// Keeps level 2's dispatch key in the threads' key sets: while the level records, a thread that got the key keeps it,
// and afterwards no thread has it. PyTorch's guards (inference_mode, autograd's engine, functorch) restore the set that
// they found, which may date from before the key was turned on or off. OpenMP's threads that run a part of a recorded
// operator have the key turned off, as the thread has that called the operator.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>

#include "dialects/torch/dispatch/torch_dispatch_hook.h"
#include "tracer/record/static_tls.h"

namespace torchtrace::torch_dialect {

// The key's bit in a stored set. A set is stored as its difference from PyTorch's default set, which lacks this key, so
// the bit is set if the set has the key.
inline const uint64_t kKeyBit = c10::DispatchKeySet(kDispatchKey).raw_repr();

// This thread's key set: PyTorch's own access to it takes a call.
extern constinit thread_local c10::impl::PODLocalDispatchKeySet* t_own_key_set TORCHTRACE_STATIC_TLS;
inline c10::impl::PODLocalDispatchKeySet* OwnKeySet() {
  if (t_own_key_set == nullptr) [[unlikely]]
    t_own_key_set = &c10::impl::raw_local_dispatch_key_set;
  return t_own_key_set;
}

// Turns the key off on this thread. Does what PyTorch's ExcludeDispatchKeyGuard does, in a few instructions.
class KeyTurnedOff {
 public:
  KeyTurnedOff() : set_(OwnKeySet()), was_off_((set_->excluded_ & kKeyBit) != 0) { set_->excluded_ |= kKeyBit; }
  ~KeyTurnedOff() {
    if (!was_off_) set_->excluded_ &= ~kKeyBit;
  }
  KeyTurnedOff(const KeyTurnedOff&) = delete;

 private:
  c10::impl::PODLocalDispatchKeySet* const set_;
  const bool was_off_;
};

// From now on a thread gets the key when it calls PutKeyRight, or when such a guard begins or ends on it. False: the
// ends of guards go unnoticed.
bool TurnKeyOn();
// Takes the key from all threads. (A thread that is in the middle of a change may keep it until its next operator.)
void TurnKeyOff();
bool KeyIsOn();

// Gives this thread the key if it is on, or else takes it away.
void PutKeyRight();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_
