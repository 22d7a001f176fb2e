// Level 2's key in the threads' key sets: while the level records, a thread that has met it keeps it, and afterwards
// none has it. Guards of PyTorch's (inference_mode, autograd's engine, functorch) put back the set that they found,
// which may be of before, or of a time in between.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_

namespace torchtrace::torch_dialect {

// From now on a thread has the key once it has called PutKeyRight, or such a guard has begun or ended on it. False:
// those that end are not known of.
bool TurnKeyOn();
// No thread has it from now on. (One that has been in the middle of a change may, up to its next operator.)
void TurnKeyOff();
bool KeyIsOn();

// Gives this thread the key, or takes it away, whichever is right now.
void PutKeyRight();

}  // namespace torchtrace::torch_dialect

#endif  // TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_
