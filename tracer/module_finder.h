// Makes `import torchtrace` work in a program that torchtrace runs, without anything
// installed: the package that came with the runtime library is found where no other
// module of that name is. The program's sys.path stays as it is.

#ifndef TORCHTRACE_TRACER_MODULE_FINDER_H_
#define TORCHTRACE_TRACER_MODULE_FINDER_H_

namespace torchtrace {

// Appends a finder to sys.meta_path. Needs the GIL; Python errors are cleared.
// Nothing where the package isn't there.
void OfferPythonModule();

}  // namespace torchtrace

#endif  // TORCHTRACE_TRACER_MODULE_FINDER_H_
