"""The folder of a trace: who owns it, who may read it, and that its other contents stay."""

import contextlib
import os
import signal
import stat
import subprocess

import pytest

from tools.testing import whole_tool as tool

torchtrace = tool.torchtrace

CLOSES_ALL = "import os; os.closerange(3, 10000); os.open('/dev/null', 0)"


def run(cwd, *args, **kwargs):
    return torchtrace("run", *args, cwd=cwd, env={"TORCHTRACE_PYTHON": tool.PYTHON, **kwargs})


@contextlib.contextmanager
def live(cwd, code, *options):
    """A run of a program that has executed `code` and waits."""
    command = [
        tool.TORCHTRACE,
        "run",
        "-qo",
        "out",
        *options,
        "-c",
        f"{code}\nprint('there', flush=True); input()",
    ]
    env = tool.environment({"TORCHTRACE_PYTHON": tool.PYTHON})
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, text=True) as program:
        try:
            assert program.stdout.readline() == "there\n"
            yield program
            program.communicate("\n")
        finally:
            program.kill()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_live_run_keeps_its_folder(tmp_path):
    assert run(tmp_path, "-qo", "other", "-c", "pass").status == 0
    with live(tmp_path, CLOSES_ALL) as program:
        before = contents(tmp_path / "out")
        for verb in (("run", "-c", "pass"), ("merge", "other"), ("filter", "other")):
            refused = torchtrace(verb[0], "-fo", "out", *verb[1:], cwd=tmp_path)
            assert refused.status == (125 if verb[0] == "run" else 2), refused
            assert f"out is in use: process {program.pid}, or one that it forked" in refused.err
            assert refused.err.endswith("wait until it ends, or give another with -o\n")
        assert contents(tmp_path / "out") == before
    assert os.listdir(tmp_path / "out/log") == [f"main-{program.pid}.ttlog"]
    assert run(tmp_path, "-qfo", "out", "-c", "pass").status == 0


def test_a_killed_run_does_not(tmp_path):
    with live(tmp_path, CLOSES_ALL) as program:
        program.kill()
        program.wait()
        assert run(tmp_path, "-qfo", "out", "-c", "pass").status == 0


def test_a_forked_process_keeps_it(tmp_path):
    code = """
import os, time
if child := os.fork(): print(child)
else: os.closerange(0, 9999); time.sleep(99)
"""
    ended = run(tmp_path, "-qo", "out", "-c", code)
    child = int(ended.out)
    try:
        refused = run(tmp_path, "-fo", "out", "-c", "pass")
        assert refused.status == 125 and "is in use: process " in refused.err
    finally:
        os.kill(child, signal.SIGKILL)
    while os.path.exists(f"/proc/{child}/maps") and open(f"/proc/{child}/maps").read():
        pass
    assert run(tmp_path, "-qfo", "out", "-c", "pass").status == 0


def test_a_started_program_does_not(tmp_path):
    code = "import subprocess; print(subprocess.Popen(['sleep', '1000'], stdout=-3, stderr=-3).pid)"
    ended = run(tmp_path, "-qo", "out", "-c", code)
    try:
        assert run(tmp_path, "-qfo", "out", "-c", "pass").status == 0
    finally:
        os.kill(int(ended.out), signal.SIGKILL)


@pytest.mark.parametrize(
    "planted", ["log", "run.json", "api_trace.txt", "log/main-1.ttlog", "log/.lock"]
)
def test_planted_links(tmp_path, planted):
    target = tmp_path / "target"
    if planted == "log":
        target.mkdir()
        (target / "main-1.ttlog").write_text("precious")
    else:
        target.write_text("precious")
    link = tmp_path / "out" / planted
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    before = contents(tmp_path)
    refused = run(tmp_path, "-fo", "out", "-c", "print('it ran')")
    assert refused.status == 125 and refused.out == ""
    assert str(link) in refused.err and ("is a link" in refused.err or planted.endswith(".lock"))
    assert contents(tmp_path) == before and link.is_symlink()


def test_a_link_that_the_program_plants(tmp_path):
    (tmp_path / "precious").write_text("precious")
    code = "import os; os.symlink('../precious', 'out/api_trace.txt')"
    ended = run(tmp_path, "-o", "out", "-c", code)
    assert ended.status == 0 and "out/api_trace.txt is a link" in ended.err
    assert (tmp_path / "precious").read_text() == "precious"
    (tmp_path / "out/api_trace.txt").unlink()
    assert torchtrace("render", "out", cwd=tmp_path).status == 0


@pytest.mark.parametrize("variable", ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"])
def test_a_rank_leads_nowhere_else(tmp_path, variable):
    (tmp_path / "in").mkdir()
    refused = run(tmp_path / "in", "-o", "%r/out", "-c", "print('it ran')", **{variable: "../.."})
    assert refused.status == 125 and refused.out == ""
    assert f"can't be named after {variable}" in refused.err
    assert os.listdir(tmp_path) == ["in"] and os.listdir(tmp_path / "in") == []


def test_a_percent_sign_in_the_scripts_name(tmp_path):
    (tmp_path / "a%r.py").write_text("pass")
    assert run(tmp_path, "-q", "a%r.py").status == 0
    assert any(name.startswith("torchtrace-a%r-") for name in os.listdir(tmp_path))


def modes(folder):
    paths = [folder, *folder.rglob("*")]
    return {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()}, {
        stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()
    }


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_who_may_read_a_trace(tmp_path, usual_umask):
    private, common = ({0o700}, {0o600}), ({0o755}, {0o644})
    assert run(tmp_path, "-qo", "private", "-c", "import os; os.umask(0)").status == 0
    assert run(tmp_path, "-qo", "common", "--readable", "-c", "pass").status == 0
    assert run(tmp_path, "-qo", "variable", "-c", "pass", TORCHTRACE_READABLE="1").status == 0
    for name, expected in (("private", private), ("common", common), ("variable", common)):
        assert modes(tmp_path / name) == expected
        for render in ((), ("-f",)):
            if not render:
                (tmp_path / name / "api_trace.txt").unlink()
                render = ("--formats", "trace.txt")
            assert torchtrace("render", "-q", *render, name, cwd=tmp_path).status == 0
            assert modes(tmp_path / name) == expected
    for verb in ("merge", "filter"):
        assert torchtrace(verb, "-qo", verb, "common", cwd=tmp_path).status == 0
        assert modes(tmp_path / verb) == private
        assert torchtrace(verb, "-qfo", verb, "--readable", "common", cwd=tmp_path).status == 0
        assert modes(tmp_path / verb) == common
    # A file named by the user gets the usual permissions.
    assert torchtrace("dedup", "private", "-o", "configs.txt", cwd=tmp_path).status == 0
    assert stat.S_IMODE((tmp_path / "configs.txt").stat().st_mode) == 0o644
    assert torchtrace("render", "-q", "private", "-o", "files", cwd=tmp_path).status == 0
    assert modes(tmp_path / "files") == common


def test_the_earlier_trace_stays_when_nothing_starts(tmp_path):
    assert run(tmp_path, "-qo", "out", "-c", "pass").status == 0
    before = contents(tmp_path / "out")
    (tmp_path / "broken.py").write_text("raise ImportError('broken')")
    for arguments, status in (
        (("--dialect", "not_there:D", "-c", "print('it ran')"), 125),
        (("--dialect", "broken:D", "-c", "print('it ran')"), 125),
        (("--python-arg=--version", "-c", "print('it ran')"), 0),
        (("--python-arg=-Z", "-c", "print('it ran')"), 2),
    ):
        ended = run(tmp_path, "-fo", "out", *arguments)
        assert ended.status == status and "it ran" not in ended.out, ended
        assert contents(tmp_path / "out") == before
        assert run(tmp_path, "-o", "new", *arguments).status == status
        assert not (tmp_path / "new").exists()


def test_what_is_said_of_a_folder_stays_on_its_line(tmp_path):
    for end in (
        "pass",
        "import os; os.abort()",
        "import glob, shutil; shutil.rmtree(glob.glob('a*')[0])",
    ):
        said = run(tmp_path, "-fo", "a\x1b[2J\ntorchtrace: FAKE", "-c", end).err
        assert "a\\x1b[2J\\ntorchtrace: FAKE" in said and "\x1b" not in said, said
        assert not any(line.startswith("torchtrace: FAKE") for line in said.splitlines()), said


def test_the_current_folder_is_gone(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    for verb in (("run", "-c", "pass"), ("merge", log), ("filter", log, "--where", "raised")):
        (tmp_path / "gone").mkdir()
        in_it = [
            "sh",
            "-c",
            'rmdir "$PWD" && exec "$@"',
            "sh",
            tool.TORCHTRACE,
            verb[0],
            "-o",
            "out",
        ]
        env = {"TORCHTRACE_PYTHON": tool.PYTHON}
        refused = tool.execute([*in_it, *verb[1:]], tmp_path / "gone", env, timeout=20)
        assert refused.status == (125 if verb[0] == "run" else 2), refused
        text = "torchtrace: cannot find the output folder out: No such file or directory\n"
        assert refused.err == text, verb
