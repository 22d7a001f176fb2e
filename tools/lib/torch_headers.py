"""Fetches one version of torch's headers, without the rest of its wheel of 200 MB or more.

Usage: torch_headers.py VERSION DIR

Reads the headers out of a wheel on PyPI by range requests, or of a whole one that pip downloads
where those are refused. DIR then looks to Python like a folder with that torch: torch/include,
torch/version.py, its metadata, and torch/lib with empty libraries of torch's names for a linker.
Headers of one version are alike for every Python. Does nothing where DIR is complete.
"""

import http.client
import io
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

LIBRARIES = ("torch_python", "torch", "torch_cpu", "c10")
BLOCK = 4 << 20  # bytes per request


def fetch(url, first=None, last=None):
    """The bytes from `first` to `last`, or all; and the size of the whole."""
    ranges = {} if first is None else {"Range": f"bytes={first}-{last}"}
    request = urllib.request.Request(url, headers=ranges)
    with urllib.request.urlopen(request, timeout=120) as answer:
        if ranges and answer.status != 206:
            raise OSError(f"{url} is given whole alone")
        total = answer.headers.get("Content-Range", "/0").rpartition("/")[2]
        return answer.read(), int(total)


class RemoteFile(io.RawIOBase):
    """A file on a server, read in blocks; caches the last few."""

    def __init__(self, url):
        self.url = url
        self.size = fetch(url, 0, 0)[1]
        self.at = 0
        self.blocks = {}

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def read(self, count=-1):
        end = self.size if count < 0 else min(self.size, self.at + count)
        data = b""
        while self.at < end:
            number, begin = divmod(self.at, BLOCK)
            if number not in self.blocks:
                if len(self.blocks) == 8:
                    self.blocks.pop(next(iter(self.blocks)))
                last = min(self.size, (number + 1) * BLOCK) - 1
                block = fetch(self.url, number * BLOCK, last)[0]
                if len(block) != last + 1 - number * BLOCK:
                    raise OSError(f"{self.url} is cut")
                self.blocks[number] = block
            part = self.blocks[number][begin : begin + end - self.at]
            data += part
            self.at += len(part)
        return data


def wheel_url(version):
    """The URL of any Python's wheel for x86-64 Linux."""
    index = "https://pypi.org/simple/torch/"
    links = re.findall(r'href="([^"#]+)', fetch(index)[0].decode())
    name = rf"/torch-{re.escape(version)}-cp3\d+-cp3\d+-manylinux\w*_x86_64\.whl$"
    for link in links:
        if re.search(name, link):
            return urllib.parse.urljoin(index, link)
    raise OSError(f"{index} has no wheel of torch {version} for Linux")


def extract(file, folder):
    with zipfile.ZipFile(file) as wheel:
        wanted = [
            entry
            for entry in wheel.infolist()
            if entry.filename.startswith("torch/include/") or entry.filename == "torch/version.py"
        ]
        # In the file's order, so that each block is fetched once.
        for entry in sorted(wanted, key=lambda entry: entry.header_offset):
            wheel.extract(entry, folder)


def download(version, folder):
    """Downloads the whole wheel with pip."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    # This Python may have no wheel for it.
    pip += ["--python-version=3.11", "--platform=manylinux_2_28_x86_64"]
    with tempfile.TemporaryDirectory() as target:
        subprocess.run([*pip, "-d", target, f"torch=={version}"], check=True)
        (wheel,) = Path(target).glob("*.whl")
        extract(wheel, folder)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    version, folder = sys.argv[1], Path(sys.argv[2])
    metadata = folder / f"torch-{version}.dist-info"
    if metadata.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        extract(RemoteFile(wheel_url(version)), folder)
    except (OSError, http.client.HTTPException, zipfile.BadZipFile) as error:
        print(f"torch_headers: {error}; downloading the wheel of torch {version}", file=sys.stderr)
        download(version, folder)
    (folder / "torch/__init__.py").touch()
    (folder / "torch/lib").mkdir(exist_ok=True)
    for name in LIBRARIES:
        library = folder / f"torch/lib/lib{name}.so"
        link = ["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"]
        subprocess.run([*link, f"-Wl,-soname,{library.name}"], check=True)
    made = metadata.with_name("unfinished")
    made.mkdir(exist_ok=True)
    (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    made.rename(metadata)  # last: marks the folder as complete


if __name__ == "__main__":
    main()
