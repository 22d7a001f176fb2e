// Makes `import torchtrace` work in a program that torchtrace runs, without anything
// installed: the package that came with the runtime library is found where no other
// module of that name is. The program's sys.path and sys.meta_path stay as they are.

#ifndef TORCHTRACE_TRACER_PYTHON_MODULE_FINDER_H_
#define TORCHTRACE_TRACER_PYTHON_MODULE_FINDER_H_

namespace torchtrace {

// Puts a native callable around PathFinder.find_spec, the last one to be asked. Needs
// the GIL; Python errors are cleared. Nothing where the package isn't there.
void OfferPythonModule();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_PYTHON_MODULE_FINDER_H_
