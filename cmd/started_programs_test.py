"""--no-follow: processes that a traced program starts as new programs are reported by name."""

import json
import os

import pytest

from tools.testing import whole_tool as tool

torchtrace = tool.torchtrace


def started(tmp_path, code, status=0):
    """The started programs in run.json, by file name, and the sentence of `info`."""
    (tmp_path / "program.py").write_text(code)
    env = {"TORCHTRACE_PYTHON": tool.PYTHON}
    ended = torchtrace("run", "-qfo", "out", "--no-follow", "program.py", cwd=tmp_path, env=env)
    assert ended.status == status, ended
    # A killed run leaves no run.json.
    torchtrace("render", "-qf", "out", "--formats", "apis", cwd=tmp_path)
    info = json.loads((tmp_path / "out/run.json").read_text())
    text = torchtrace("info", "out", cwd=tmp_path).out
    sentences = [line for line in text.splitlines() if "started as" in line]
    assert len(sentences) == bool(info["started_programs"]) and "yes" not in text
    if any(each["python"] for each in info["started_programs"]):
        assert "; not seen: " in torchtrace("stats", "out", cwd=tmp_path).err
    names = {
        os.path.basename(each["program"]): (each["count"], each["python"])
        for each in info["started_programs"]
    }
    return names, "".join(sentences).strip()


RUN = "import subprocess, sys\nPYTHON = [sys.executable, '-c', 'pass']\n"
PYTHON_NAME = "python3"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            "subprocess.run(PYTHON); subprocess.run(['true'])",
            {PYTHON_NAME: (1, True), "true": (1, False)},
        ),
        ("[subprocess.Popen(PYTHON).wait() for _ in range(3)]", {PYTHON_NAME: (3, True)}),
        ("subprocess.run('true', shell=True)", {"sh": (1, False)}),
        ("subprocess.run(PYTHON, preexec_fn=lambda: None)", {PYTHON_NAME: (1, True)}),
        ("subprocess.run(['./tool.py'], cwd='sub')", {"tool.py": (1, True)}),
        ("import os; os.system('true'); os.popen('true').read()", {"sh": (2, False)}),
        (
            "import os; os.waitpid(os.posix_spawn(PYTHON[0], PYTHON, {}), 0)",
            {PYTHON_NAME: (1, True)},
        ),
        ("import os; os.waitpid(os.posix_spawnp('true', ['true'], {}), 0)", {"true": (1, False)}),
        ("import os; os.spawnv(os.P_WAIT, PYTHON[0], PYTHON)", {PYTHON_NAME: (1, True)}),
        (
            "import os\nif os.fork() == 0: os.execv(PYTHON[0], PYTHON)\nos.wait()",
            {PYTHON_NAME: (1, True)},
        ),
        (
            "import os\nif os.fork() == 0: os._exit(subprocess.call(['true']))\nos.wait()",
            {"true": (1, False)},
        ),
        # A program that could not be started doesn't count.
        (
            "import os\n"
            "try: subprocess.run(['no such program'])\nexcept FileNotFoundError: pass\n"
            "try: os.posix_spawn('/no/such', ['x'], {})\nexcept FileNotFoundError: pass\n"
            "try: os.system(3)\nexcept TypeError: pass\n"
            "try: subprocess.run(['tool.py'], cwd='/')\nexcept FileNotFoundError: pass\n",
            {},
        ),
    ],
)
def test_each_way_is_named(tmp_path, code, expected):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/tool.py").write_text(f"#!{tool.PYTHON}\n")
    (tmp_path / "sub/tool.py").chmod(0o755)
    names, sentence = started(tmp_path, RUN + code)
    assert names == expected
    if expected:
        count = sum(count for count, _ in expected.values())
        assert sentence.startswith(f"not seen: {count} process")
    for name, (many, python) in expected.items():
        facts = ", ".join([str(many)] * (many > 1) + ["Python"] * python)
        assert name + (f" ({facts})" if facts else "") in sentence


def test_multiprocessing_spawn(tmp_path):
    names, sentence = started(
        tmp_path,
        "import multiprocessing\n"
        "def work(): pass\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('spawn').Process(target=work)\n"
        "    process.start()\n"
        "    process.join()\n",
    )
    assert set(names) == {PYTHON_NAME} and names[PYTHON_NAME][1]
    assert sentence.startswith("not seen: ")


def test_a_program_that_is_killed(tmp_path):
    code = (
        RUN + "import os; subprocess.run(PYTHON); subprocess.run(PYTHON); os.kill(os.getpid(), 9)"
    )
    names, sentence = started(tmp_path, code, status=-9)
    assert names == {PYTHON_NAME: (1, True)} and sentence


def test_names_are_safe_and_few(tmp_path):
    code = RUN + (
        "import os, shutil\n"
        "def start(name):\n"
        "    path = os.path.join(os.getcwd(), name)\n"
        "    shutil.copy('/bin/true', path)\n"
        "    subprocess.run([path], check=True)\n"
        "start('a\\x1b[31m\\nb')\n"
        "start('c\\udcff')\n"
        "start('d' * 250)\n"
        "for number in range(30): start(str(number))\n"
    )
    names, sentence = started(tmp_path, code)
    assert len(names) == 21 and names["others"] == (13, False)
    assert sum(count for count, _ in names.values()) == 33
    assert "\x1b" not in sentence


def test_the_program_sees_no_difference(tmp_path):
    code = (
        "import sys, os, _posixsubprocess, subprocess, time\n"
        "print(_posixsubprocess.fork_exec, os.system, os.posix_spawn, subprocess._fork_exec)\n"
        "print(os.system is __import__('posix').system)\n"
        "print(_posixsubprocess.fork_exec.__text_signature__)\n"
        "for call in (os.system, os.posix_spawn, os.posix_spawnp, _posixsubprocess.fork_exec):\n"
        "    try: call()\n"
        "    except TypeError as error: print(error)\n"
        "print(subprocess.check_output(['echo', 'hello']), os.system('exit 3'))\n"
        "class Path:\n"
        "    def __fspath__(self): print('asked'); return '/bin/true'\n"
        "print(subprocess.call([Path()]))\n"
    )
    env = {"TORCHTRACE_PYTHON": tool.PYTHON}
    traced = torchtrace("run", "-qo", "out", "-c", code, cwd=tmp_path, env=env)
    plain = tool.execute([tool.PYTHON, "-c", code], cwd=tmp_path)
    assert traced.lines() == plain.lines() and traced.status == 0


@pytest.mark.parametrize("option", ["-Xutf8", "-Xdev"])
def test_modules_are_as_untraced(tmp_path, option):
    code = """
import sys
print(sorted(sys.modules), sorted(sys.path_importer_cache))
print([line for line in open("/proc/self/maps") if "_posixsubprocess" in line])
"""
    env = {"TORCHTRACE_PYTHON": tool.PYTHON}
    options = ("-qo", "out", f"--python-arg={option}")
    traced = torchtrace("run", *options, "-c", code, cwd=tmp_path, env=env)
    plain = tool.execute([tool.PYTHON, option, "-c", code], cwd=tmp_path)
    assert traced.lines() == plain.lines() and traced.status == 0
