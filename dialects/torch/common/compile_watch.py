"""Tells the hooks when a thread is inside torch.compile's own work.

Run when torch._dynamo.callback has been imported: Dynamo opens
`callback_handler.install_callbacks(...)` around every compilation, also that
of a backward graph at its first run.
"""


def watch(callback_module, wrap):
    """Replaces the handler's install_callbacks by `wrap` of it: native, no frame."""
    handler = callback_module.callback_handler
    handler.install_callbacks = wrap(handler.install_callbacks)
