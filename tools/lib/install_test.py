"""tools/install, into a folder of its own."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKS = [
    "bin/torchtrace",
    "share/bash-completion/completions/torchtrace",
    "share/fish/vendor_completions.d/torchtrace.fish",
    "share/man/man1/torchtrace.1",
    "share/zsh/site-functions/_torchtrace",
]

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def install(prefix):
    return subprocess.run([ROOT / "tools/install", prefix], capture_output=True, text=True)


def files_and_links(prefix):
    """Everything outside lib/torchtrace."""
    found = [path.relative_to(prefix) for path in prefix.rglob("*") if not path.is_dir()]
    return sorted(str(path) for path in found if path.parts[:2] != ("lib", "torchtrace"))


def test_install_again_and_elsewhere(tmp_path):
    prefix = tmp_path / "a prefix"
    for _ in range(2):
        done = install(prefix)
        assert done.returncode == 0, done.stderr
        assert files_and_links(prefix) == LINKS
    moved = prefix.rename(tmp_path / "moved")
    for link in LINKS:
        assert (moved / link).is_symlink() and (moved / link).read_bytes()
    shown = subprocess.run(
        [moved / "bin/torchtrace", "version"], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("torchtrace ")


def test_what_is_somebody_elses_stays(tmp_path):
    page = tmp_path / "share/man/man1/torchtrace.1"
    page.parent.mkdir(parents=True)
    page.write_text("mine")
    done = install(tmp_path)
    assert done.returncode != 0
    assert f"{page} exists and is not torchtrace's own" in done.stderr
    assert page.read_text() == "mine" and files_and_links(tmp_path) == [
        "share/man/man1/torchtrace.1"
    ]
