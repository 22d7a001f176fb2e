"""torchtrace run --library and --disable-torch-api-list: what level 0 traces."""

import json
import subprocess
import textwrap

import pytest

from tools.testing import whole_tool as tool

SHAPES = {
    "__init__": "from .areas import square, circle\n",
    "areas": """\
        PI = 3
        def square(side): return side * side
        def circle(radius): return _round(PI * radius * radius)
        def _round(x): return round(x)
        """,
    "solids": """\
        class Cube:
            def __init__(self, side): self.side = side
            def volume(self): return self.side ** 3
            @property
            def edge(self): return self.side
        """,
}
SCRIPT = """\
import shapes, shapes.solids
shapes.square(3)
shapes.circle(2)
shapes.solids.Cube(2).volume()
"""


@pytest.fixture
def project(tmp_path):
    """A script with a package in the same folder, which isn't the current one."""
    package = tmp_path / "project" / "shapes"
    package.mkdir(parents=True)
    for name, text in SHAPES.items():
        (package / f"{name}.py").write_text(textwrap.dedent(text))
    script = tmp_path / "project" / "main.py"
    script.write_text(SCRIPT)
    return script


def run(tmp_path, *args, env=None, folder="out"):
    caches = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **(env or {})}
    args = ["run", "--python", tool.PYTHON, "-o", tmp_path / folder, *args]
    return tool.torchtrace(*args, cwd=tmp_path, env=caches)


def calls(tmp_path, folder="out"):
    return (tmp_path / folder / "api_trace.txt").read_text().splitlines()


def run_json(tmp_path, folder="out"):
    return json.loads((tmp_path / folder / "run.json").read_text())


def test_a_package_beside_the_script(tmp_path, project):
    done = run(tmp_path, "-l", "0", "--library", "shapes", project)
    assert done.status == 0, done.err
    assert calls(tmp_path) == [
        "shapes.square(3)",
        "shapes.circle(2)",
        "shapes.solids.Cube(2)",
        'shapes.solids.Cube.volume(object("shapes.solids.Cube"))',
    ]
    (part,) = run_json(tmp_path)["api_list"]
    assert part == {"list": "default", "library": "shapes", "version": "", "apis": 4}
    assert run_json(tmp_path)["not_seen"] == []
    assert "importing all modules of shapes in " in done.err
    # The package may change at any time, so no list is cached.
    assert [kept.name for kept in (tmp_path / "cache/torchtrace").iterdir()] == ["python"]
    assert not list(project.parent.rglob("__pycache__"))


@pytest.mark.parametrize("everything", ["--disable-torch-api-list", "--api-list=all"])
def test_everything_of_it(tmp_path, project, everything):
    done = run(tmp_path, "-l", "0", "--library=shapes", everything, project)
    assert done.status == 0, done.err
    assert calls(tmp_path) == [
        "shapes.square(3)",
        "shapes.circle(2)",
        "shapes.areas._round(12)",
        "shapes.solids.Cube(2)",
        'shapes.solids.Cube.__init__(object("shapes.solids.Cube"), 2)',
        'shapes.solids.Cube.volume(object("shapes.solids.Cube"))',
    ]
    assert run_json(tmp_path)["api_list"][0]["list"] == "everything"


def test_a_list_and_a_library(tmp_path, project):
    (tmp_path / "mine.txt").write_text("json.dumps\nshapes.square\n")
    script = project.with_name("more.py")
    script.write_text(SCRIPT + "import json\njson.dumps([])\n")
    env = {"TORCHTRACE_LIBRARY": "shapes", "TORCHTRACE_API_LIST": "mine.txt"}
    done = run(tmp_path, "-q", "-l", "0", script, env=env)
    assert (done.status, done.err) == (0, "")
    names = [line.partition("(")[0] for line in calls(tmp_path)]
    assert (names[0], names[-1], len(names)) == ("shapes.square", "json.dumps", 5)
    assert [part["list"] for part in run_json(tmp_path)["api_list"]] == ["mine.txt", "default"]


def test_numpy_without_torch(tmp_path):
    code = "import numpy as np, sys\na = np.ones((2, 3)) + 1\nnp.concatenate([a, a], axis=1)\n"
    code += "print('torch' in sys.modules)\n"
    done = run(tmp_path, "-l", "0", "--outermost", "--library", "numpy", "-c", code)
    assert (done.status, done.out) == (0, "False\n"), done.err
    assert calls(tmp_path) == [
        "numpy.ones(tuple(2, 3))",
        'numpy.ndarray.__add__(ndarray([2, 3], "float64"), 1)',
        'numpy.concatenate(list[ndarray([2, 3], "float64"), ndarray([2, 3], "float64")], axis=1)',
    ]
    assert run_json(tmp_path)["not_seen"] == []
    (kept,) = (kept for kept in (tmp_path / "cache/torchtrace").iterdir() if kept.is_file())
    assert kept.name.startswith("numpy-default-")
    # The cached list is used, unless it is incomplete.
    again = run(tmp_path, "-l", "0", "--library", "numpy", "-c", code, folder="again")
    assert again.status == 0 and "importing" not in again.err
    kept.write_text(kept.read_text().replace("# end", ""))
    again = run(tmp_path, "-l", "0", "--library", "numpy", "-c", code, folder="third")
    assert again.status == 0 and "importing all modules of numpy" in again.err


@pytest.mark.torch
def test_numpy_and_torch(tmp_path):
    code = (
        "import numpy as np\na = np.ones((2, 3))\nimport torch\n"
        "t = torch.from_numpy(a)\nnp.asarray(t)\ntorch.nn.functional.relu(t)\n"
    )
    done = run(tmp_path, "-l", "0,2", "--outermost", "--library", "numpy,torch", "-c", code)
    assert done.status == 0, done.err
    lines = calls(tmp_path)
    assert lines[0] == "numpy.ones(tuple(2, 3))"
    assert 'torch.from_numpy(ndarray([2, 3], "float64"))' in lines
    assert 'numpy.asarray(Tensor([2, 3], "float64"))' in lines
    assert 'torch.nn.functional.relu(Tensor([2, 3], "float64"))' in lines
    assert 'torch.relu(Tensor([2, 3], "float64"))' not in lines
    assert 'aten::relu(Tensor([2, 3], "float64"))' in lines
    assert [part["library"] for part in run_json(tmp_path)["api_list"]] == ["numpy", "torch"]


@pytest.mark.parametrize(
    "args, message",
    [
        (["-l", "1", "--library", "numpy"], "--library is for level 0, which isn't traced"),
        (
            ["-l", "1", "--disable-torch-api-list"],
            "--disable-torch-api-list is for level 0, which isn't traced",
        ),
        (
            ["-l", "0", "--api-list", "own.txt"],
            "own.txt:1: __main__.f can't be listed: --library __main__ traces all of the program's "
            "own functions",
        ),
        (
            ["-l", "0", "--disable-torch-api-list", "--api-list", "x.txt"],
            "--disable-torch-api-list traces everything that is found, and --api-list what a file "
            "names: give one of them",
        ),
        (["-l", "0", "--library", "../x"], "'../x' is not the name of a Python module"),
        (["-l", "0", "--library", "no_such_lib"], "No module named 'no_such_lib'"),
        (["-l", "0", "--library", "nothing"], "nothing has no public APIs that level 0 could"),
    ],
)
def test_usage(tmp_path, args, message):
    (tmp_path / "x.txt").write_text("json.dumps\n")
    (tmp_path / "own.txt").write_text("__main__.f\n")
    (tmp_path / "nothing.py").write_text("_x = 1\n")
    done = run(tmp_path, "-q", *args, "-c", "print('ran')")
    assert (done.status, done.out) == (125, "")
    assert message in done.err and len(done.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


FAILING_NEW = """
#include <stdlib.h>
#include <new>
static thread_local int left = -1;
extern "C" void fail_after(int count) { left = count; }
void* operator new(size_t bytes) {
  if (left == 0) throw std::bad_alloc();
  if (left > 0) --left;
  return malloc(bytes);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
"""


def test_without_memory_the_program_goes_on_and_tracing_stops(tmp_path, project):
    library = tmp_path / "failing_new.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-O1", "-xc++", "-", "-o", library],
        input=FAILING_NEW,
        text=True,
        check=True,
    )
    project.write_text(
        "import ctypes, sys, shapes\n"
        "fail_after = ctypes.CDLL(None).fail_after\n"
        "words = [str(i) * 50 for i in range(200)]\n"
        "fail_after(int(sys.argv[1]))\n"
        "total = shapes.square(3) + shapes.circle(2) + len(shapes.areas.square.__name__)\n"
        "try: shapes.square(words)\n"
        "except TypeError as error: print(error)\n"
        "fail_after(-1)\n"
        "print(total, shapes.square(5))\n"
    )
    stopped = set()
    for count in (*range(10), 1_000_000):
        ended = run(
            tmp_path,
            *("-l", "0", "--library", "shapes", "--formats", "none", project, count),
            env={"LD_PRELOAD": str(library)},
            folder=f"out-{count}",
        )
        assert ended.status == 0, ended.err
        assert ended.out == "can't multiply sequence by non-int of type 'list'\n27 25\n"
        stopped.add(bool(json.loads((tmp_path / f"out-{count}/run.json").read_text())["stopped"]))
    # Early ones fail in the middle of a call, the last ones get all allocations.
    assert stopped == {True, False}
