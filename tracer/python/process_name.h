// What a process is in its program: which worker of a DataLoader, or multiprocessing's name for it. Read from Python's
// objects in memory, without calling Python code or creating objects.

#ifndef TORCHTRACE_TRACER_PYTHON_PROCESS_NAME_H_
#define TORCHTRACE_TRACER_PYTHON_PROCESS_NAME_H_

#include <string>

namespace torchtrace {

// `DataLoader worker 3`, `SpawnPoolWorker-1`; empty: multiprocessing didn't start the process, or the thread doesn't
// hold the GIL, without which only DataLoader workers are known.
std::string PythonProcessName();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_PROCESS_NAME_H_
