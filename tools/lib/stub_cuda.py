"""Makes a CUDA build of torch importable on a machine that has no nvidia-* wheel.

Usage: stub_cuda.py TORCH_DIR

PyPI's torch for Linux is the CUDA build, whose libraries ask for 3 GB of others. For each of
those that is not here this writes a stub of its name into TORCH_DIR/lib, which is in every
library's search path: each symbol asked for, in the version asked for, is a function that
returns 100 (cudaErrorNoDevice). Programs then see a torch without a GPU. Needs gcc and
binutils. Does nothing where nothing is missing.
"""

import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

# Names of CUDA's own libraries, among the symbols that are required without a version.
CUDA = re.compile(r"_*cu[a-zA-Z]|nccl|nvtx|nvrtc|nvshmem|nvJit|__cuda|__nv|cufile")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Wanted:
    """Everything that torch's libraries require of others."""

    def __init__(self, libraries):
        self.needed = set()  # file names
        self.versions = collections.defaultdict(set)  # file name -> required versions
        self.symbols = collections.defaultdict(set)  # version, "" for none -> symbols
        defined = set()
        for library in libraries:
            self.needed |= set(
                re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-dW", library))
            )
            self.read_versions(output("readelf", "-VW", library))
            for line in output("nm", "-D", library).splitlines():
                fields = line.split()
                if len(fields) == 3:
                    defined.add(fields[2].partition("@")[0])
                elif fields[0] in "UwvWV":
                    name, _, version = fields[1].partition("@")
                    self.symbols[version.lstrip("@")].add(name)
        self.symbols[""] = {name for name in self.symbols[""] - defined if CUDA.match(name)}

    def read_versions(self, listed):
        file = None
        for line in listed.splitlines():
            if match := re.search(r"File: (\S+)", line):
                file = match[1]
            elif (match := re.search(r"Name: (\S+)", line)) and file:
                self.versions[file].add(match[1])


def write_stub(path, versions, plain):
    """A library with `plain` symbols, and those of each version in `versions`."""
    names = plain.union(*versions.values())
    source = "".join(f"long {name}(void) {{ return 100; }}\n" for name in sorted(names))
    script = "".join(
        f"{version} {{ global: {' '.join(name + ';' for name in sorted(symbols))} }};\n"
        for version, symbols in sorted(versions.items())
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "stub.c").write_text(source)
        (Path(folder) / "stub.map").write_text(script)
        command = ["gcc", "-w", "-fno-builtin", "-shared", "-fPIC", "-o", path]
        command += [f"{folder}/stub.c", f"-Wl,-soname,{path.name}"]
        if script:
            command.append(f"-Wl,--version-script={folder}/stub.map")
        subprocess.run(command, check=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1]) / "lib"
    cache = output("/sbin/ldconfig", "-p").splitlines()
    here = {line.split()[0] for line in cache if "=>" in line} | {p.name for p in folder.iterdir()}
    wanted = Wanted([p for p in folder.iterdir() if ".so" in p.name and not p.is_symlink()])
    plain = wanted.symbols[""]
    for name in sorted(wanted.needed - here):
        versions = {version: wanted.symbols[version] for version in wanted.versions[name]}
        write_stub(folder / name, versions, plain)
        plain = set()  # only the first stub defines these


if __name__ == "__main__":
    main()
