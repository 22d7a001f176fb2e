"""The wheel that tools/wheel makes, in an environment of its own."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPT = """
import torch, torchtrace
print(torchtrace.__file__)
with torchtrace.trace("out", levels=[1, 2]) as trace:
    torch.ones(2).relu()
if not trace.joined:
    print(torchtrace.read(trace).stats()["api"])
"""


def execute(*command, cwd, **env):
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TORCHTRACE", "PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with the wheel, and torch from the one that runs this test."""
    folder = tmp_path_factory.mktemp("wheel")
    # For only one era of torch: the others are built in the same way, and take minutes each.
    era = (ROOT / ".build/default-key").read_text().strip().rpartition("torch")[2]
    shown = execute(ROOT / "tools/wheel", "--eras", era, "-o", folder, cwd=folder)
    wheel = Path(shown.strip().splitlines()[-1])
    assert "-manylinux_2_" in wheel.name
    assert wheel.parent == folder and wheel.suffix == ".whl"
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python3"
    pip = [python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check"]
    execute(*pip, wheel, cwd=folder)
    (packages,) = (folder / "venv/lib").glob("python3*/site-packages")
    (packages / "torch-of-the-tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv"


def test_the_module(environment, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    out = execute(environment / "bin/python3", "script.py", cwd=tmp_path)
    assert out.startswith(str(environment / "lib"))
    assert "torch.Tensor.relu" in out.splitlines()[1]
    package = Path(out.splitlines()[0]).parent
    assert (package / "py.typed").exists() and {file.name for file in package.glob("*.pyi")} == {
        "__init__.pyi",
        "_native.pyi",
    }
    assert "aten::relu" in (tmp_path / "out/api_apis.txt").read_text()


def test_the_executable(environment, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    exe = environment / "bin/torchtrace"
    version = execute(exe, "version", cwd=tmp_path).split()[1]
    shown = "import importlib.metadata; print(importlib.metadata.version('torchtrace'))"
    assert execute(environment / "bin/python3", "-c", shown, cwd=tmp_path).strip() == version
    shown = "import torch, torchtrace; print(torchtrace.__version__)"
    assert execute(environment / "bin/python3", "-c", shown, cwd=tmp_path).strip() == version
    # Outside the repository: uses its own runtime.
    python = environment / "bin/python3"
    execute(exe, "run", "-v", "--python", python, "-o", "run", "script.py", cwd=tmp_path)
    stats = execute(exe, "stats", "run", cwd=tmp_path)
    assert "torch.Tensor.relu" in stats
    execute(exe, "export", "parquet", "--python", python, "run", "-qo", "x.parquet", cwd=tmp_path)
    assert (tmp_path / "x.parquet").read_bytes()[:4] == b"PAR1"
    maps = "print([l.split()[-1] for l in open('/proc/self/maps') if 'torchtrace_runtime' in l][0])"
    shown = execute(exe, "run", "-q", "-o", "maps", "--python", python, "-c", maps, cwd=tmp_path)
    assert shown.startswith(str(environment))


def test_its_own_python_manual_and_completions(environment, tmp_path):
    exe = environment / "bin/torchtrace"
    # No Python is named, and no environment is active.
    shown = execute(exe, "run", "-qo", "own", "-c", "import sys; print(sys.prefix)", cwd=tmp_path)
    assert shown.strip() == str(environment)
    share = environment / "share"
    for file, command in {
        "man/man1/torchtrace.1": ["help", "--man"],
        "bash-completion/completions/torchtrace": ["completions", "bash"],
        "zsh/site-functions/_torchtrace": ["completions", "zsh"],
        "fish/vendor_completions.d/torchtrace.fish": ["completions", "fish"],
    }.items():
        assert (share / file).read_text() == execute(exe, *command, cwd=tmp_path), file


def test_it_needs_nothing_of_the_checkout(environment):
    (runtime,) = environment.glob("lib/python3*/site-packages/torchtrace/runtime/*")
    listed = execute("ldd", runtime / "torchtrace_native.so", cwd=environment)
    for line in listed.splitlines():
        if "absl" in line or "yaml" in line:
            assert str(environment) in line
    assert runtime.name == "py%d.%d" % sys.version_info[:2]
