"""Lets the hooks know when a thread is inside torch.compile's own work.

Run for each of MODULES when it has been imported. Dynamo opens `compile_context(...)` around
all that it does for a frame, and AOTAutograd around a backward graph that is compiled at its
first run. `callback_handler.install_callbacks(...)` is inside those, and alone around what
Inductor compiles later. Other modules also open compile_context around code that runs.
"""

# For each module, its object that has the function ("": the module itself), and the function.
MODULES = {
    "torch._dynamo.callback": ("callback_handler", "install_callbacks"),
    "torch._dynamo.convert_frame": ("", "compile_context"),
    "torch._functorch._aot_autograd.runtime_wrappers": ("", "compile_context"),
}


def watch(module, wrap):
    """Replaces the module's function by `wrap` of it, which is native and adds no frame."""
    owner, name = MODULES[module.__name__]
    owner = getattr(module, owner) if owner else module
    setattr(owner, name, wrap(getattr(owner, name)))
