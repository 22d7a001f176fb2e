"""Packs torchtrace for one minor version of Python as a wheel; tools/wheel builds all of it."""

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

# Libraries that a machine with torch has. All others are put into the wheel.
EVERYWHERE = re.compile(
    r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|libpython.*|libtorch.*|libc10)\.so"
)

RUNTIME = ("libtorchtrace_runtime.so", "torchtrace_native.so")

METADATA = """Metadata-Version: 2.1
Name: torchtrace
Version: {version}
Summary: strace for PyTorch: records the API and operator calls of a program
License: Apache-2.0
Requires-Python: =={python}.*
"""

WHEEL = """Wheel-Version: 1.0
Generator: torchtrace tools/wheel
Root-Is-Purelib: false
Tag: {tag}
"""


def libraries(module):
    """The shared libraries of a module that the wheel must contain: name -> path."""
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


def oldest_tag(files):
    """The platform of the oldest C library with all required symbols: manylinux_2_35_x86_64."""
    versions = set()
    for file in files:
        listed = subprocess.run(
            ["readelf", "-VW", file], capture_output=True, text=True, check=True
        )
        versions |= {int(minor) for minor in re.findall(r"Name: GLIBC_2\.(\d+)", listed.stdout)}
    return f"manylinux_2_{max(versions)}_{os.uname().machine}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--runtime", type=Path, required=True, help=".build/runtime/py3.11")
    parser.add_argument("--module", type=Path, action="append", required=True, help="one for torch")
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args()

    runtime = args.runtime
    executable = args.build / "bin" / "torchtrace"
    shown = subprocess.run([executable, "version"], capture_output=True, text=True, check=True)
    version = shown.stdout.split()[1]
    python = runtime.name.removeprefix("py")
    short = "cp" + python.replace(".", "")
    info = f"torchtrace-{version}.dist-info"

    files = {f"torchtrace-{version}.data/scripts/torchtrace": executable}
    for source in sorted((runtime / "torchtrace").rglob("*")):
        if source.suffix not in (".py", ".pyi", ".typed"):
            continue
        files[str(source.relative_to(runtime))] = source
    needed = {}
    for module in [*(runtime / name for name in RUNTIME), *sorted(args.module)]:
        files[f"torchtrace/runtime/{runtime.name}/{module.name}"] = module
        needed.update(libraries(module))
    for name, path in sorted(needed.items()):
        files[f"torchtrace/runtime/{runtime.name}/lib/{name}"] = Path(path)
    # In the folder in which the executable looks for them.
    beside = f"torchtrace-{version}.data/data/lib/torchtrace"
    for name in ("libtorchtrace_preload.so", "libtorchtrace_verbs.so"):
        library = args.build / "lib/torchtrace" / name
        files[f"{beside}/{name}"] = library
        for needed_name, path in sorted(libraries(library).items()):
            files[f"{beside}/{needed_name}"] = Path(path)
    # The manual and completions.
    share = args.build / "share"
    for path in sorted(path for path in share.rglob("*") if path.is_file()):
        files[f"torchtrace-{version}.data/data/share/{path.relative_to(share)}"] = path
    binaries = [path for path in files.values() if path == executable or ".so" in path.name]
    tag = f"{short}-{short}-{oldest_tag(binaries)}"
    contents = {name: path.read_bytes() for name, path in files.items()}
    contents[f"{info}/METADATA"] = METADATA.format(version=version, python=python).encode()
    contents[f"{info}/WHEEL"] = WHEEL.format(tag=tag).encode()

    record = ""
    for name, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    args.output.mkdir(parents=True, exist_ok=True)
    wheel = args.output / f"torchtrace-{version}-{tag}.whl"
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
