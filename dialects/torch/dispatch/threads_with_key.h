// Keeps level 2's dispatch key in the threads' key sets: while the level records, a thread that got the key keeps it,
// and afterwards no thread has it. PyTorch's guards (inference_mode, autograd's engine, functorch) restore the set that
// they found, which may date from before the key was turned on or off.

#ifndef TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_
#define TORCHTRACE_DIALECTS_TORCH_DISPATCH_THREADS_WITH_KEY_H_

namespace torchtrace::torch_dialect {

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
