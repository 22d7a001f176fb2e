"""Packs torchtrace for one Python and torch as a wheel; tools/wheel builds what is packed."""

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

# Libraries that a machine has beside torch. Everything else travels along.
EVERYWHERE = re.compile(
    r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|libpython.*|libtorch.*|libc10)\.so"
)
MODULES = ("libtorchtrace_runtime.so", "torchtrace_torch.so", "torchtrace_native.so")

METADATA = """Metadata-Version: 2.1
Name: torchtrace
Version: {version}
Summary: strace for PyTorch: records the API and operator calls of a program
License: Apache-2.0
Requires-Python: =={python}
Provides-Extra: torch
Requires-Dist: torch=={torch}; extra == "torch"
"""

WHEEL = """Wheel-Version: 1.0
Generator: torchtrace tools/wheel
Root-Is-Purelib: false
Tag: {tag}
"""


def libraries(module):
    """The shared libraries behind a module that must travel with it: name -> path."""
    listed = subprocess.run(["ldd", module], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if EVERYWHERE.match(os.path.basename(name.split()[0])):
            continue
        if not arrow or path.startswith("not found"):
            sys.exit(f"make_wheel: {module} needs {name}, which is not here")
        found[name] = path.rsplit(" (", 1)[0]
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--key", required=True, help="py3.11.7-torch2.13.0+cpu")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    runtime = args.build / "runtime" / args.key
    executable = args.build / "bin" / "torchtrace"
    shown = subprocess.run([executable, "version"], capture_output=True, text=True, check=True)
    version = shown.stdout.split()[1]
    python, torch = re.fullmatch(r"py([\d.]+)-torch(.*)", args.key).groups()
    # One wheel for each pair: the torch that it is for is a part of its version.
    local = re.sub(r"[^a-z0-9]+", ".", f"torch{torch}".lower())
    full = f"{version}+{local}"
    short = "cp" + "".join(python.split(".")[:2])
    machine = os.uname().machine
    tag = f"{short}-{short}-linux_{machine}"
    info = f"torchtrace-{full}.dist-info"

    files = {f"torchtrace-{full}.data/scripts/torchtrace": executable}
    for source in sorted((runtime / "torchtrace").glob("*.py")):
        files[f"torchtrace/{source.name}"] = source
    needed = {}
    for module in MODULES:
        files[f"torchtrace/runtime/{args.key}/{module}"] = runtime / module
        needed.update(libraries(runtime / module))
    for name, path in sorted(needed.items()):
        files[f"torchtrace/runtime/{args.key}/lib/{name}"] = Path(path)
    # Beside the executable, where it looks for it.
    export = args.build / "lib/torchtrace/libtorchtrace_export.so"
    beside = f"torchtrace-{full}.data/data/lib/torchtrace"
    files[f"{beside}/{export.name}"] = export
    for name, path in sorted(libraries(export).items()):
        files[f"{beside}/{name}"] = Path(path)
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents[f"{info}/METADATA"] = METADATA.format(
        version=full, python=python, torch=torch.split("+")[0]
    ).encode()
    contents[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()

    record = ""
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    args.output.mkdir(parents=True, exist_ok=True)
    wheel = args.output / f"torchtrace-{full}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            mode = 0o755 if name.endswith("scripts/torchtrace") or ".so" in name else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main()
