"""Finds every function, method and class of a Python library, as JSON on standard output.

Run by scan_library.cc in the user's own Python: `python -c THIS LIBRARY REQUEST`, with
REQUEST a JSON object {"imports": [...], "toward": "", "folder": "", "timeout_s": 120,
"walk": true}. Importing a module may do anything: exit, crash, hang, print, write files. So a
child process imports, without standard streams and in an empty folder, and writes to its parent
what it imports next; when it dies or hangs, the next child leaves that module out.
"""

import sys

# A module in the current folder must not shadow one of the standard library: main() adds the
# folder at the end.
_HERE = [path for path in sys.path if path == ""]
sys.path[:] = [path for path in sys.path if path != ""]

import functools  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pkgutil  # noqa: E402
import select  # noqa: E402
import shutil  # noqa: E402
import signal  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import types  # noqa: E402
import warnings  # noqa: E402

# Methods that operators and statements call.
_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split()
SLOTS = frozenset(
    f"__{prefix}{name}__" for prefix in ("", "r", "i") for name in _BINARY
) | frozenset(
    f"__{name}__"
    for name in (
        "lt le eq ne gt ge neg pos abs invert bool int float complex index round trunc floor ceil "
        "len contains getitem setitem delitem iter next reversed"
    ).split()
)

_CYTHON_FUNCTIONS = ("cython_function_or_method", "fused_cython_function")

_BUILTIN_CLASS_MEMBERS = {
    types.MethodDescriptorType: "method",
    types.WrapperDescriptorType: "slot",
    types.ClassMethodDescriptorType: "classmethod",
    types.GetSetDescriptorType: "property",
    types.MemberDescriptorType: "property",
    types.BuiltinFunctionType: "staticmethod",
}


def is_private(name):
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


class Found:
    """One object under all its names."""

    def __init__(self, thing):
        self.thing = thing
        self.names = {}  # name: is it public?
        self.kinds = {}  # by name: abs() of a tensor is its method abs

    @property
    def public(self):
        return any(self.names.values())

    @property
    def kind(self):
        return self.kinds[self.best()]

    def best(self):
        """The preferred name: without underscores, short, its own before aliases."""
        own = getattr(self.thing, "__name__", None)

        def rank(name):
            parts = name.split(".")
            hidden = (sum(map(is_private, parts)), parts[-1].startswith("_"))
            return (hidden, len(parts), not self.names[name], parts[-1] != own, len(name), name)

        return min(self.names, key=rank)


class Walk:
    """What the imported modules of a library hold."""

    def __init__(self, library):
        self.library = library
        self.root = library.split(".")[0]
        self.found = {}  # by id
        self.classes = {}  # id: (class, its names)
        self.heirs = None  # id of a base: the public classes

    def run(self):
        for name, module in sorted(sys.modules.items(), key=lambda item: item[0]):
            inside = name == self.library or name.startswith(self.library + ".")
            if inside and isinstance(module, types.ModuleType):
                self._module(name, module)
        # Members of classes come last: a method is named after its class's best name.
        for cls, found in list(self.classes.values()):
            self._class(cls, found)
        return list(self.found.values())

    def _owned(self, module):
        return isinstance(module, str) and module.split(".")[0] == self.root

    def _add(self, thing, kind, name, public):
        found = self.found.get(id(thing))
        if found is None:
            found = self.found[id(thing)] = Found(thing)
        found.names[name] = found.names.get(name, False) or public
        found.kinds.setdefault(name, kind)
        return found

    def _module(self, name, module):
        held = dict(vars(module))
        exported = held.get("__all__")
        if isinstance(exported, (list, tuple, set)):
            exported = {item for item in exported if isinstance(item, str)}
            for item in exported - held.keys():
                try:
                    held[item] = getattr(module, item)
                except BaseException:
                    continue
        else:
            exported = None
        open_module = not any(map(is_private, name.split(".")))
        for attribute, thing in held.items():
            if not isinstance(attribute, str) or not attribute.isidentifier():
                continue
            kind, home = self._describe(thing)
            # A C function has no module, or one of another name.
            if kind is None or not (self._owned(home) or (home is None and kind == "builtin")):
                continue
            if kind == "builtin":
                public = True  # C code is in private modules, so it is imported to be shown
            elif exported is not None:
                public = attribute in exported
            else:
                home = home or ""
                public = (home + ".").startswith(name + ".")
            public = public and open_module and not attribute.startswith("_")
            found = self._add(thing, kind, f"{name}.{attribute}", public)
            if kind == "class":
                self.classes[id(thing)] = (thing, found)

    def _describe(self, thing):
        """(kind, the module that it is from), or (None, None)."""
        try:
            kind = type(thing)
            if isinstance(thing, type):
                return "class", thing.__module__
            if isinstance(thing, types.FunctionType):
                return "function", thing.__module__
            if isinstance(thing, types.BuiltinFunctionType):
                return "builtin", _builtin_home(thing)
            if isinstance(thing, types.MethodType):
                return "function", thing.__func__.__module__
            if isinstance(thing, types.ModuleType) or not callable(thing):
                return None, None
            if isinstance(thing, functools._lru_cache_wrapper):
                return "function", thing.__module__
            if kind.__name__ in _CYTHON_FUNCTIONS:
                return "builtin", thing.__module__
            # Functions that are objects of the library's own classes: numpy.add, numpy.sum.
            name = getattr(thing, "__name__", None)
            if isinstance(name, str) and self._owned(kind.__module__):
                return "builtin", kind.__module__
        except BaseException:
            pass
        return None, None

    def _class(self, cls, found):
        name = found.best()
        self._members(cls, vars(cls), name, found.public)
        # Members known as torch.Tensor's are in a base of it.
        for base in self._shown_by(cls):
            own = vars(cls)
            members = {key: it for key, it in vars(base).items() if own.get(key, it) is it}
            self._members(base, members, name, True)

    def _shown_by(self, cls):
        """Bases that are not public and from which only this public class derives directly."""
        if not self._is_public(cls):
            return []
        if self.heirs is None:
            self.heirs = {}
            for other, _ in self.classes.values():
                if self._is_public(other) and not _is_face(other):
                    for base in other.__bases__:
                        self.heirs.setdefault(id(base), []).append(other)
        bases = [base for base in cls.__bases__ if id(base) in self.classes]
        return [
            base
            for base in bases
            if not self._is_public(base) and self.heirs.get(id(base)) == [cls]
        ]

    def _is_public(self, cls):
        known = self.classes.get(id(cls))
        return known is not None and known[1].public

    def _members(self, cls, members, name, public):
        for attribute, thing in list(members.items()):
            if not isinstance(attribute, str) or not attribute.isidentifier():
                continue
            kind = None
            if type(thing) in _BUILTIN_CLASS_MEMBERS:
                # A member defined by another class of the library is this one's too if it is here.
                owner = getattr(thing, "__objclass__", cls)
                if owner is not cls and (id(owner) not in self.classes or _is_face(cls)):
                    continue
            functions = (types.FunctionType, functools._lru_cache_wrapper)
            if isinstance(thing, functions) or type(thing).__name__ in _CYTHON_FUNCTIONS:
                kind = "slot" if attribute in SLOTS else "method"
            elif isinstance(thing, (classmethod, staticmethod)):
                kind, thing = type(thing).__name__, thing.__func__
            elif isinstance(thing, (property, functools.cached_property)):
                kind = "property"
            elif isinstance(thing, type) and thing.__module__ == cls.__module__:
                kind = "class" if thing.__qualname__ == f"{cls.__qualname__}.{attribute}" else None
            else:
                kind = _BUILTIN_CLASS_MEMBERS.get(type(thing))
                if kind == "method" and attribute in SLOTS:
                    kind = "slot"
                if kind == "slot" and attribute not in SLOTS:
                    kind = None
            if kind is None:
                continue
            shown = not attribute.startswith("_") or kind == "slot"
            inner = self._add(thing, kind, f"{name}.{attribute}", public and shown)
            if kind == "class" and id(thing) not in self.classes:
                self.classes[id(thing)] = (thing, inner)
                self._class(thing, inner)


def _is_face(cls):
    """Whether it can't be derived from: torch.FloatTensor is only another face of torch.Tensor,
    with a copy of all its members."""
    return not cls.__flags__ & (1 << 10)


def _builtin_home(thing):
    owner = thing.__self__
    if isinstance(owner, types.ModuleType):
        return owner.__name__
    if isinstance(owner, type):
        return owner.__module__
    return thing.__module__ or type(owner).__module__


class Child:
    """Imports and walks; writes to its parent what it does next."""

    def __init__(self, library, request, skip, journal, result):
        self.library = library
        self.request = request
        self.skip = skip
        self.journal = journal
        self.result = result
        self.unread = {}

    def tell(self, what, name=""):
        os.write(self.journal, json.dumps([what, name]).encode() + b"\n")

    def run(self):
        warnings.simplefilter("ignore")
        if not self.load(self.library):
            self.finish({"error": self.unread[self.library]})
            return
        for name in self.request["imports"]:
            if not self.load(name):
                self.finish({"error": f"{name}: {self.unread[name]}"})
                return
        # The modules on the way to that name.
        parts = self.request["toward"].split(".")
        for end in range(2, len(parts) + 1):
            name = ".".join(parts[:end])
            if not self.load(name):
                del self.unread[name]
                break
        if self.request["walk"]:
            self.load_below(sys.modules[self.library])
        self.tell("walk")
        found = Walk(self.library).run()
        facts = EXTRA_FACTS.get(self.library.split(".")[0])
        extra = facts(found) if facts is not None else {}
        rows = []
        for item in found:
            name = item.best()
            row = {"api": name, "kind": item.kind, "public": item.public}
            others = item.names.items() - {(name, item.names[name])}
            row["aliases"] = sorted(alias for alias, public in others if public)
            row["elsewhere"] = sorted(alias for alias, public in others if not public)
            row.update(extra.get(id(item.thing), {}))
            rows.append(row)
        if "." not in self.library:
            rows += extra.get("more", [])
        version = getattr(sys.modules[self.library.split(".")[0]], "__version__", "")
        self.finish(
            {
                "library": self.library,
                "version": str(version),
                "apis": rows,
                "not_imported": sorted(self.unread.items()),
            }
        )

    def finish(self, answer):
        self.result.write(json.dumps(answer))
        self.result.flush()
        self.tell("done")

    def load(self, name):
        if name in self.skip:
            self.unread[name] = self.skip[name]
            return False
        self.tell("import", name)
        try:
            importlib.import_module(name)
            return True
        except BaseException as error:
            text = " ".join(str(error).split())
            kind = type(error).__name__
            self.unread[name] = (f"{kind}: {text}" if text else kind)[:300]
            return False

    def load_below(self, package):
        for found in sorted(pkgutil.iter_modules(getattr(package, "__path__", None) or [])):
            name = f"{package.__name__}.{found.name}"
            if found.name == "__main__":
                self.unread[name] = "it is a program and would run"
            elif (
                self.load(name)
                and found.ispkg
                and isinstance(sys.modules.get(name), types.ModuleType)
            ):
                self.load_below(sys.modules[name])


def start_child(library, request, skip, folder):
    read, write = os.pipe()
    result = tempfile.TemporaryFile("w+")
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            os.chdir(folder)
            Child(library, request, skip, write, result).run()
        except BaseException as error:
            os.write(
                write, json.dumps(["failed", f"{type(error).__name__}: {error}"]).encode() + b"\n"
            )
        finally:
            os._exit(0)
    os.close(write)
    return pid, read, result


def stop_child(pid):
    """Kills it and what it started. Returns its exit status; None if it was still running."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    if ended == 0:
        os.waitpid(pid, 0)
        return None
    return status


def scan(library, request):
    skip = {}
    folder = tempfile.mkdtemp(prefix="torchtrace-scan-")
    pid = None
    try:
        while True:
            pid, read, result = start_child(library, request, skip, folder)
            answer = follow(pid, read, result, request["timeout_s"], skip)
            pid = None
            os.close(read)
            if answer is not None:
                return answer
    finally:
        if pid is not None:
            stop_child(pid)
        shutil.rmtree(folder, ignore_errors=True)


def follow(pid, read, result, timeout_s, skip):
    """Returns the answer, or None when it has added a module to `skip`."""
    doing = ["import", ""]
    buffer = b""
    while True:
        ready, _, _ = select.select([read], [], [], timeout_s)
        data = os.read(read, 65536) if ready else b""
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            doing = json.loads(line)
        if doing[0] == "done":
            stop_child(pid)
            result.seek(0)
            return json.load(result)
        if doing[0] == "failed":
            stop_child(pid)
            return {"error": doing[1]}
    if ready:
        time.sleep(0.05)  # the process ends after its pipe
    status = stop_child(pid)
    if not ready:
        reason = f"takes longer than {timeout_s:g} s to import"
    elif status is not None and os.WIFSIGNALED(status):
        reason = f"the process died of signal {os.WTERMSIG(status)} when importing it"
    else:
        code = os.WEXITSTATUS(status) if status is not None else 0
        reason = f"ends the process with exit code {code} when imported"
    if doing[0] != "import" or doing[1] in skip or doing[1] == "":
        return {"error": f"reading what was imported: {reason}"}
    skip[doing[1]] = reason
    return None


# By library: found -> {id: {more keys}, "more": [rows]}.
EXTRA_FACTS = {}


def main():
    sys.dont_write_bytecode = True
    if _HERE:
        sys.path.append(os.getcwd())
    request = json.loads(sys.argv[2])
    if request["folder"]:
        sys.path.append(request["folder"])
    try:
        answer = scan(sys.argv[1], request)
    except KeyboardInterrupt:
        sys.exit(130)
    json.dump(answer, sys.stdout)
