"""The self-test of the first run with a Python and a torch, from a user's view."""

import json
import os
import signal
import subprocess
import time

import pytest

from tools.testing import whole_tool as tool

pytestmark = pytest.mark.torch

PROGRAM = "import torch; torch.cos(torch.nn.Identity()(torch.ones(2)))"
# The self-test imports torch whatever the program does.
SHORT = ("-c", "pass")
TESTING = "torchtrace: testing the levels with Python 3."


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """A home folder after the first run, and the run's messages."""
    home = tmp_path_factory.mktemp("home")
    # The self-test ignores this run's variables.
    return home, run(home, home / "work", env={"TORCHTRACE_INCLUDE": "torch.cos"})


def run(home, folder, *options, program=("-c", PROGRAM), env=None):
    folder.mkdir(exist_ok=True)
    changes = {"TORCHTRACE_NO_SELF_TEST": None, "XDG_CACHE_HOME": str(home), **(env or {})}
    command = ("run", "-fo", "t", "--python", tool.PYTHON, *options, *program)
    return tool.torchtrace(*command, cwd=folder, env=changes)


def kept(home):
    (file,) = (home / "torchtrace/selftest").iterdir()
    return file


def info(folder):
    return json.loads((folder / "t/run.json").read_text())


def levels(folder):
    done = tool.torchtrace("dump", "t", "--format", "jsonl", cwd=folder)
    return {json.loads(line)["level"] for line in done.out.splitlines()}


def test_once_for_a_pair(tested, tmp_path):
    home, first = tested
    assert first.status == 0, first.err
    assert first.err.startswith(TESTING) and first.err.count("testing the levels") == 1
    assert json.loads(kept(home).read_text()) == {"failed": {}}
    assert info(home / "work")["self_test"] == {"failed": []}
    again = run(home, tmp_path, "-l0,1,2")
    assert again.status == 0 and "testing" not in again.err
    assert levels(tmp_path) == {0, 1, 2}


def test_what_cannot_be_read_is_made_again(tested, tmp_path):
    """Other such texts: self_check_test.cc."""
    home, _ = tested
    kept(home).write_text('{"failed": {"9": {}}}')
    done = run(home, tmp_path, program=SHORT)
    assert done.status == 0 and done.err.startswith(TESTING)
    assert json.loads(kept(home).read_text()) == {"failed": {}}


def test_a_result_that_cannot_be_read_at_all(tested, tmp_path):
    home = tmp_path / "home"
    (home / "torchtrace/selftest" / kept(tested[0]).name).mkdir(parents=True)
    done = run(home, tmp_path / "work", program=SHORT)
    assert done.status == 0 and done.err.startswith(TESTING)
    assert kept(home).is_dir()


def test_a_default_device_of_a_sitecustomize(tested, tmp_path):
    """It is not a level's fault, and the result is not kept for runs without it."""
    home, _ = tested
    before = kept(home)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(
        "import torch; torch.set_default_device('meta')"
    )
    done = run(home, tmp_path, "-l0,1,2", env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.status == 0 and done.err.startswith(TESTING)
    assert info(tmp_path)["self_test"] == {"failed": []}
    (new,) = set(before.parent.iterdir()) - {before}
    new.unlink()


def test_no_self_test(tmp_path):
    for options, env in [
        (["--no-self-test"], {}),
        ([], {"TORCHTRACE_NO_SELF_TEST": "1"}),
        (["-l0", "--library", "json"], {}),
    ]:
        done = run(tmp_path / "home", tmp_path, *options, program=SHORT, env=env)
        assert done.status == 0 and "testing" not in done.err, done.err
        assert not (tmp_path / "home/torchtrace/selftest").exists()
        assert "self_test" not in info(tmp_path)


def test_nowhere_to_keep_it(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file/home", tmp_path, "-q", program=SHORT)
    assert (done.status, done.err) == (0, "")
    assert info(tmp_path)["self_test"] == {"failed": []}


def switched_off(level, what):
    return (
        f"any call of level {level}: it is switched off, since its self-test failed with this "
        f"Python and torch ({what})"
    )


def test_a_level_that_fails_is_switched_off(tested, tmp_path):
    """A torch that level 0 doesn't support, made by a module that Python imports at its start."""
    home, _ = tested
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import torch\ntorch.nn.Identity = torch.nn.ReLU\n")
    folder = tmp_path / "work"
    env = {"PYTHONPATH": str(site)}
    done = run(tmp_path / "home", folder, "-l0,1,2", env=env)
    assert done.status == 0, done.err
    sentence = switched_off(0, "of 1000 calls of torch.nn.Identity 0 were recorded")
    assert f"torchtrace: not seen: {sentence}\n" in done.err
    assert levels(folder) == {1, 2}
    assert info(folder)["self_test"] == {"failed": [sentence]}
    alone = run(tmp_path / "home", folder, "-l0", env=env)
    assert alone.status == 125
    assert alone.err == (
        f"torchtrace: nothing is left to trace: {sentence}. --no-self-test traces it anyway\n"
    )


@pytest.mark.parametrize("whole_group", [True, False])
def test_ended_by_a_signal(tmp_path, whole_group):
    """Nothing is left behind, and nothing is kept."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [tool.TORCHTRACE, "run", "-fo", "t", "--python", tool.PYTHON, "-c", "print('ran')"],
        cwd=tmp_path,
        env=tool.environment(
            {
                "TORCHTRACE_NO_SELF_TEST": None,
                "XDG_CACHE_HOME": str(tmp_path),
                "TMPDIR": str(temporary),
            }
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not list(temporary.glob("*/0-1-2-3-4")):
        time.sleep(0.01)
        assert process.poll() is None
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGTERM, "")
    assert list(temporary.iterdir()) == []
    if whole_group:
        assert not (tmp_path / "torchtrace/selftest").exists()


def test_what_is_no_fault_of_a_level(tmp_path):
    """The known calls also fail untraced: the result is unknown, and not kept."""
    (tmp_path / "sitecustomize.py").write_text("import torch\ndel torch.tan\n")
    env = {"PYTHONPATH": str(tmp_path)}
    done = run(tmp_path / "home", tmp_path / "work", program=SHORT, env=env)
    assert done.status == 0
    assert "self_test" not in info(tmp_path / "work")
    assert not (tmp_path / "home/torchtrace/selftest").exists()


def test_kept_failures(tested, tmp_path):
    home, _ = tested
    file = kept(home)
    right = file.read_text()
    try:
        file.write_text('{"failed": {"2": {"what": "Aborted", "died": true}}}')
        done = run(home, tmp_path / "died", "-l1,2")
        assert done.status == 125
        assert done.err == (
            "torchtrace: level 2 kills programs with this Python and torch (its self-test: "
            "Aborted); leave it out, with --levels\n"
        )
        assert run(home, tmp_path / "without", "-l1", program=SHORT).status == 0
        unasked = run(home, tmp_path / "unasked", "-l1,2", "--no-self-test", program=SHORT)
        assert unasked.status == 0
        file.write_text('{"failed": {"1": {"what": "it exited with 3", "died": false}}}')
        assert run(home, tmp_path / "failed", "-l1,2").status == 0
        assert levels(tmp_path / "failed") == {2}
    finally:
        file.write_text(right)
