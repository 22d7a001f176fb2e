"""Lets the hooks know what torch.compile does: when a thread works for it, and what it has made.

`watch` is run for each of the modules when it has been imported. Dynamo opens
`compile_context(...)` around all that it does for a frame, and AOTAutograd around a backward
graph that is compiled at its first run. `callback_handler.install_callbacks(...)` is inside
those, and alone around what Inductor compiles later. Other modules also open compile_context
around code that runs. `disable(...)` makes the function that runs a backward graph, or
`post_compile(...)` if the graph comes from a cache.

The other functions take modules as arguments: the program's own __import__ would see an import.
"""

# For each module, its object that has the function ("": the module itself), the function, and what
# a call of it begins.
MODULES = {
    "torch._dynamo.backends.common": ("", "disable", "backward run"),
    "torch._dynamo.callback": ("callback_handler", "install_callbacks", ""),
    "torch._dynamo.convert_frame": ("", "compile_context", "graph"),
    "torch._functorch._aot_autograd.runtime_wrappers": ("", "compile_context", "backward"),
}

# Where backward graphs come from a cache, depending on the version: classes with a `post_compile`.
CACHES = (
    "torch._functorch._aot_autograd.aot_autograd_result",
    "torch._functorch._aot_autograd.autograd_cache",
)

# Where the function is that makes functions of AOTInductor's libraries.
LIBRARIES = "torch._export"

# Where the class is whose instances run AOTInductor's packages, depending on the version.
PACKAGES = ("torch._inductor.package.package", "torch.export.pt2_archive._package")


def watch(module, wrap):
    """Replaces the module's functions by `wrap` of them, which is native and adds no frame."""
    if module.__name__ in PACKAGES:
        cls = vars(module).get("AOTICompiledModel")
        if cls is not None and cls.__module__ == module.__name__:
            wrap(cls.__call__, "package run")
        return
    if module.__name__ == LIBRARIES:
        if load := vars(module).get("aot_load"):
            wrap(load, "library load")
        return
    if module.__name__ in CACHES:
        for cls in list(vars(module).values()):
            if (
                isinstance(cls, type)
                and cls.__module__ == module.__name__
                and cls.__name__.endswith("CompiledBackward")
            ):
                if made := vars(cls).get("post_compile"):
                    cls.post_compile = wrap(made, "backward load")
        return
    owner, name, begins = MODULES[module.__name__]
    owner = getattr(module, owner) if owner else module
    setattr(owner, name, wrap(getattr(owner, name), begins))


def graph_functions(convert_frame, out):
    """The functions that run the graph of the code that Dynamo made: one, or none for no graph."""
    hooks = convert_frame.CleanupManager.instance.get(out) or ()
    found = [hook.scope.get(hook.name) for hook in hooks if hook.name.startswith("__compiled_fn")]
    # If a backend returned a module, so does Dynamo, with a function as its `forward`.
    return [
        each if isinstance(each, type(graph_functions)) else getattr(each, "forward", each)
        for each in found
        if each is not None
    ]


def count_breaks(utils):
    return len(utils.graph_break_reasons)


def finished(convert_frame, utils, code, compile_id, breaks):
    """What Dynamo has made of `code`: functions, why it compiled again, where the graph broke.

    `breaks`: count_breaks before.
    """
    functions = []
    seen = convert_frame.output_codes.seen
    out = seen[-1]() if seen else None
    if out is not None and convert_frame.orig_code_map.get(out) is code:
        functions = graph_functions(convert_frame, out)
    metrics = utils._compilation_metrics
    last = metrics[-1] if metrics else None
    reason = last.recompile_reason if last is not None and last.compile_id == compile_id else None
    places = {}  # a frame that is analyzed again may list a reason again
    for each in utils.graph_break_reasons[breaks:]:
        place = each.user_stack[-1] if each.user_stack else None
        key = (str(each.reason), place.filename if place else "", place.lineno if place else 0)
        places[key] = True
    return functions, str(reason or ""), list(places)


def made_before(convert_frame, eval_frame):
    """(function, compile id, code) of each graph that was compiled before."""
    graphs = []
    for reference in list(convert_frame.output_codes.seen):
        out = reference()
        code = None if out is None else convert_frame.orig_code_map.get(out)
        if code is None:
            continue
        for entry in eval_frame._debug_get_cache_entry_list(code):
            if entry.code is out:
                name = str(entry.compile_id)
                graphs += [(each, name, code) for each in graph_functions(convert_frame, out)]
    return graphs
