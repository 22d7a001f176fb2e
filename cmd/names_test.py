"""Names in --include and --exclude: aliases, known names, and filters that no call passes."""

import json
import re

import pytest

from tools.testing import whole_tool as tool

CALLS = """\
torch.conv2d(Tensor([1, 3, 8, 8], "float32"), Tensor([4, 3, 3, 3], "float32"))
torch.relu(Tensor([2], "float32"))
aten::add.Tensor(Tensor([2], "float32"), Tensor([2], "float32"))
mypackage.train(1)
"""


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "calls.txt"
    path.write_text(CALLS)
    return path


def torchtrace(*args, **kwargs):
    return tool.torchtrace(*args, cwd="/", **kwargs)


def apis(trace, *args):
    result = torchtrace("stats", "-q", "--format", "json", trace, *args)
    assert result.status == 0 and result.err == "", result
    return sorted(row["api"] for row in json.loads(result.out)["apis"])


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--include", "torch.nn.functional.conv2d"], ["torch.conv2d"]),
        (["--include", "torch.nn.*"], ["torch.conv2d"]),
        (["--exclude", "*.functional.*"], ["aten::add.Tensor", "mypackage.train", "torch.relu"]),
        (["--include", "aten::add"], ["aten::add.Tensor"]),
        (["--include", "mypackage.*"], ["mypackage.train"]),
    ],
)
def test_names_of_an_api_are_one(trace, args, expected):
    assert apis(trace, *args) == expected


VERBS = [
    ["stats"],
    ["dump"],
    ["tree"],
    ["dedup"],
    ["export", "jsonl"],
    ["export", "csv", "--calls"],
    ["apis", "coverage"],
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("torch.covn2d", ", did you mean torch.conv2d?"),
        ("mypackage.trian", ", did you mean mypackage.train?"),
        ("torch.nn.functinal.*", ", did you mean torch.nn.functional.*?"),
        ("nowhere.near.it*", ""),
    ],
)
def test_unknown_names_are_errors(trace, verb, pattern, nearest):
    result = torchtrace(*verb, trace, "--include", pattern)
    assert result.status == 2 and result.out == ""
    assert result.err == (
        f"torchtrace: unknown API or operator {pattern}{nearest}"
        f" (write ?{pattern} to use it anyway)\n"
    )


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("pattern", ["?torch.covn2d", "torch.softmax"])
def test_a_filter_that_leaves_nothing_says_so(trace, verb, pattern):
    result = torchtrace(*verb, trace, "--include", pattern)
    if verb == ["apis", "coverage"] and pattern[0] == "?":
        assert result.status == 2  # matches nothing in the list either
        return
    assert result.status == 0
    shown = f"'{pattern}'" if "?" in pattern else pattern
    assert f"torchtrace: no call matches --include {shown}\n" in result.err
    assert "no call matches" not in torchtrace(*verb, trace, "--include", "torch.relu").err


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("option", ["--include", "--exclude"])
@pytest.mark.parametrize("names", ["", ",", ",,"])
def test_a_list_of_nothing_is_an_error(trace, verb, option, names):
    result = torchtrace(*verb, trace, option, names)
    assert result.status == 2 and result.out == ""
    assert result.err.startswith(f"torchtrace: {option}: '{names}' is an empty list (see ")


@pytest.mark.parametrize(
    ("group", "error"),
    [
        ("mine: []", "1: %mine has nothing in it"),
        ("mine: {names: [], groups: []}", "1: %mine has nothing in it"),
        (
            "'%mine': [torch.relu]",
            "1: expected the name of a group, without % ? , and blanks, found",
        ),
        (
            "mine:\n- torch.rellu",
            "2: unknown API or operator torch.rellu, did you",
        ),
        ("mine: {names: [relu, sofmax]}", "1: unknown API or operator sofmax"),
        (
            "x: [mypackage.trian]\nmine: {groups: [x]}",
            "1: unknown API or operator",
        ),
    ],
)
def test_groups_are_checked_as_names_are(trace, tmp_path, group, error):
    groups = tmp_path / "groups.yaml"
    groups.write_text(group)
    result = torchtrace("stats", trace, "--groups", groups, "--include", "%mine")
    assert result.status == 2 and result.out == ""
    assert result.err.startswith(f"torchtrace: {groups}:{error}"), result.err


def test_groups_hold_what_may_come(trace, tmp_path):
    groups = tmp_path / "groups.yaml"
    groups.write_text("mine: ['?torch.rellu', torch.relu, mypackage.train]\nslip: [torch.rellu]\n")
    args = ("--groups", groups, "--include", "%mine")
    assert apis(trace, *args) == ["mypackage.train", "torch.relu"]
    result = run(tmp_path, *("--groups", groups, "--exclude", "%slip", "-o", "out", "-c", "pass"))
    assert result.status == 125 and f"{groups}:2: unknown API or operator" in result.err


def test_diff_and_filter(trace, tmp_path):
    result = torchtrace("diff", trace, trace, "--include", "torch.covn2d")
    assert result.status == 2 and "did you mean torch.conv2d?" in result.err
    result = torchtrace("diff", trace, trace, "--include", "?torch.covn2d")
    assert result.status == 0 and "no call matches --include" in result.err
    result = torchtrace("filter", trace, "-o", tmp_path / "a", "--include", "torch.covn2d")
    assert result.status == 2 and "did you mean torch.conv2d?" in result.err
    result = torchtrace(
        *("filter", trace, "-o", tmp_path / "a", "--include", "torch.nn.functional.conv2d"),
        *("--where", "nargs = 7"),
    )
    assert result.status == 0
    assert (
        "no call matches --include torch.nn.functional.conv2d --where 'nargs = 7'\n" in result.err
    )


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("api = torch.covn2d", "unknown API or operator torch.covn2d, did you mean torch.conv2d?"),
        ("dtype = float17", "column 9: unknown dtype float17, did you mean float16?"),
        ("layout in (sparse_csr, sprase_coo)", "column 24: unknown layout sprase_coo"),
        ("level = 7", "column 9: unknown level 7, known are 0, 1, 2, 3, 4 ("),
        ("rank = 3", "column 8: unknown rank 3; there is none ("),
        ("device = gpu", "unknown device gpu, did you mean cuda?"),
        ("arg(dim) = 3", "no call of the trace has an argument named dim "),
        ("tag(step) = 3", "no call of the trace has a tag named step "),
        ("dtype ~ flaot*", "unknown dtype flaot*"),
        ("dtype = fp16", "did you mean float16?"),
    ],
)
def test_values_of_conditions(trace, tmp_path, where, error):
    result = torchtrace("filter", trace, "-o", tmp_path / "out", "--where", where)
    assert result.status == 2 and error in result.err, result.err
    assert not (tmp_path / "out").exists()
    accepted = where.replace("= ", "= ?").replace(", ", ", ?").replace("~ ", "~ ?")
    accepted = re.sub(r"\((\w+)\) = \?", r"(?\1) = ", accepted)
    result = torchtrace("filter", trace, "-o", tmp_path / "out", "--where", accepted)
    assert result.status == 0, result.err
    assert "no call matches --where" in result.err


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("level = dispach", "column 9: expected a level, 0"),
        (
            "thread = main",
            "column 10: expected a number (thread_name is compared with names), found",
        ),
        (
            "call = 1-3",
            "column 8: expected a number (call >= 1 and call <= 3; --calls takes ranges)",
        ),
    ],
)
def test_conditions_say_what_is_meant(trace, where, error):
    result = torchtrace("dump", trace, "--where", where)
    assert result.status == 2 and error in result.err, result.err


def test_levels_have_names_in_conditions(trace):
    result = torchtrace("dump", trace, "--where", "level = dispatch")
    assert [line.split()[1] for line in result.out.splitlines()] == ["aten::add.Tensor(Tensor([2],"]


def test_conditions_on_large_numbers(tmp_path):
    calls = tmp_path / "calls.txt"
    calls.write_text(
        'torch.relu(Tensor([4294967296, 4294967296], "float32"))\n'
        'torch.abs(Tensor([4294967296, 4294967296, 0], "float32"))\n'
        "torch.add(1180591620717411303424, 1)\n"
    )

    def matched(where):
        return re.findall(r"torch\.(\w+)\(", torchtrace("dump", calls, "--where", where).out)

    assert matched("numel > 1e18") == ["relu"]
    assert matched("numel = 0") == ["abs"]
    assert matched("arg(0) > 1e20") == ["add"]
    assert matched("arg(0) = 1180591620717411303424") == ["add"]
    assert matched("arg(0) = 1180591620717411303425") == []


def test_conditions_know_aliases(trace, tmp_path):
    for i, where in enumerate(
        (
            "api = torch.nn.functional.conv2d",
            "api ~ *.conv2d",
            "api in (aten::mul, torch.nn.functional.conv2d)",
        )
    ):
        result = torchtrace("filter", trace, "-o", tmp_path / str(i), "--where", where)
        assert result.status == 0
        assert (tmp_path / str(i) / "api_apis.txt").read_text() == "torch.conv2d\n"


READERS_OF_CALLS = [
    ["dump"],
    ["tree"],
    ["replay", "--python", tool.PYTHON],
    *(["export", format, "--calls"] for format in ("csv", "jsonl")),
    *(["export", format] for format in ("flamegraph", "et", "timing", "pytest")),
]
SELECTIONS = [
    ["--thread", "77"],
    ["--thread", "nobody*"],
    ["--rank", "7"],
    ["--where", "nargs = 77"],
    ["--level", "3"],
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=" ".join)
@pytest.mark.parametrize("verb", READERS_OF_CALLS, ids=lambda verb: " ".join(verb[:2]))
def test_a_selection_that_leaves_nothing_says_so(trace, verb, selection):
    if verb[0] == "replay" and selection[0] != "--where":
        return  # starting torch takes seconds, and the code is the same
    result = torchtrace(*verb, trace, *selection)
    assert result.status == 0, result.err
    shown = " ".join(
        f"'{word}'" if word[-1] in "*7" and not word.isdigit() else word for word in selection
    )
    assert f"torchtrace: no call matches {shown}\n" in result.err
    if verb[0] != "replay":
        assert "no call matches" not in torchtrace(*verb, trace, "--where", "level = function").err


@pytest.mark.parametrize(
    "verb",
    [verb for verb in READERS_OF_CALLS if verb[-1] != "--calls"],
    ids=lambda verb: " ".join(verb[:2]),
)
def test_numbers_that_leave_nothing_say_so(trace, verb):
    result = torchtrace(*verb, *("--calls", "77"), trace)
    assert result.status == 0, result.err
    assert "torchtrace: no call matches --calls 77\n" in result.err


def test_all_readers_check_values_of_conditions(trace):
    for verb in READERS_OF_CALLS:
        result = torchtrace(*verb, trace, "--where", "dtype = float17")
        assert result.status == 2 and result.out == ""
        assert "unknown dtype float17, did you mean float16?" in result.err
    result = tool.torchtrace(
        *("dump", "-", "--where", "arg(dmi) = 3"), cwd="/", stdin="torch.softmax(1, dim=3)\n"
    )
    assert result.status == 2 and "did you mean dim?" in result.err
    result = tool.torchtrace(
        *("dump", "-", "--include", "torch.rellu"), cwd="/", stdin="torch.softmax(1, dim=3)\n"
    )
    assert result.status == 2 and "did you mean torch.relu?" in result.err
    result = tool.torchtrace(
        *("dump", "-", "--where", "arg(dim) = 3"), cwd="/", stdin="torch.softmax(1, dim=3)\n"
    )
    assert result.status == 0 and "torch.softmax" in result.out


def test_a_value_that_one_of_the_traces_has_is_known(tmp_path):
    paths = [tmp_path / name for name in ("a.txt", "b.txt")]
    paths[0].write_text("torch.softmax(1, dim=3)\n")
    paths[1].write_text("torch.relu(1)\n")
    result = torchtrace("export", "csv", "--calls", *paths, "--where", "arg(dim) = 3")
    assert result.status == 0 and result.out.count("torch.softmax") >= 1
    assert "no call matches" not in result.err


def test_dump_by_numbers(trace, tmp_path):
    def shown(numbers):
        result = torchtrace("dump", trace, "--calls", numbers)
        assert result.status == 0
        return [int(line.split()[0]) for line in result.out.splitlines()]

    (tmp_path / "numbers").write_text("1 3\n")
    assert shown("0,2-3") == [0, 2, 3]
    assert shown(f"@{tmp_path}/numbers") == [1, 3]
    for numbers, error in (
        ("5-3", '"5-3" ends before it begins; 3-5?'),
        ("99999999999999999999", '"99999999999999999999" is beyond the largest number, 2^64 - 1'),
        ("a", '"a" is not a number or a range; expected A-B, A-, -B or A'),
        ("-", '"-" is not a number or a range; expected A-B, A-, -B or A'),
    ):
        for verb in (("dump",), ("export", "csv")):
            result = torchtrace(*verb, trace, f"--calls={numbers}")
            assert result.status == 2 and result.out == ""
            assert f"--calls: {error} (see" in result.err
    result = torchtrace("export", "csv", trace, "--calls", "5-3")
    assert result.status == 2 and '--calls: "5-3" ends before it begins' in result.err
    (tmp_path / "numbers").write_bytes(b"1\n2\0 3\n")
    result = torchtrace("dump", trace, "--calls", f"@{tmp_path}/numbers")
    assert result.status == 2 and 'numbers:2: "2\\x00" is not a number' in result.err, result.err
    result = torchtrace("dump", trace, "--calls", "9")
    assert result.out == "" and "no call matches --calls 9\n" in result.err


def test_a_list_of_aliases_is_covered(trace, tmp_path):
    names = tmp_path / "list.txt"
    names.write_text("torch.nn.functional.conv2d\ntorch.nn.functional.softmax\n")
    result = torchtrace("apis", "coverage", trace, "--list", names, "--format", "json")
    report = json.loads(result.out)
    assert report["called"] == 1
    assert report["apis"][0]["api"] == "torch.nn.functional.conv2d"


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (
            "torch.relu\ntorch.rellu\n",
            ":2: unknown API or operator torch.rellu, did",
        ),
        ("numpy.add\n", ":1: unknown API or operator numpy.add, did you"),
        (
            "supported:\n- add.Tensor\n- adddmm\n",
            ":3: unknown API or operator",
        ),
        (
            "apis:\n- {api: torch.rellu}\n",
            ":2: unknown API or operator torch.rellu",
        ),
    ],
)
def test_names_of_a_list_are_checked(trace, tmp_path, names, error):
    path = tmp_path / "list"
    path.write_text(names)
    result = torchtrace("apis", "coverage", trace, "--list", path)
    assert result.status == 2 and result.out == ""
    assert result.err.startswith(f"torchtrace: {path}{error}"), result.err


def test_a_list_holds_what_may_come_and_what_a_scan_found(trace, tmp_path):
    path = tmp_path / "list"
    path.write_text(
        "apis: ['?torch.rellu', {api: mylib.f, kind: function}, mypackage.train, torch.relu, "
        "torch.Tensor.shape.__get__, 'torch.ops.aten.add.Tensor']\n"
    )
    result = torchtrace("apis", "coverage", trace, "--list", path, "--format", "json")
    assert result.status == 0, result.err
    assert json.loads(result.out)["total"] == 6 and json.loads(result.out)["called"] == 3


def test_names_of_one_api_count_once(trace, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("torch.nn.functional.conv2d\ntorch.conv2d\naten::add.Tensor\naten.add.Tensor\n")
    result = torchtrace("apis", "coverage", trace, "--list", path, "--format", "json")
    assert json.loads(result.out)["total"] == 2 and json.loads(result.out)["called"] == 2
    assert (
        f"torchtrace: 2 names in {path} are aliases of other names in it, and count once: "
        "torch.conv2d, ...\n" in result.err
    )


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("torch.nn.*", "'torch.nn.*' is a pattern; apis name takes the name of one API"),
        (
            "torch",
            "'torch' is not an API, but contains some: torchtrace apis scan --library torch lists",
        ),
        ("torch.nn", "'torch.nn' is not an API, but contains some"),
        ("json", "'json' is not an API, but contains some"),
        ("conv2d", "did you mean torch.conv2d (torch.nn.functional.conv2d)?\n"),
    ],
)
def test_apis_name_knows_what_is_no_api(name, error):
    result = torchtrace("apis", "name", name, env={"TORCHTRACE_PYTHON": str(tool.PYTHON)})
    assert result.status == 2 and error in result.err, result.err


def test_notes_are_said_once(tmp_path):
    files = []
    for name in ("a", "b"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": [], "schemaVersion": 1}))
        files.append(tmp_path / name)
    result = torchtrace("stats", *files)
    lines = result.err.splitlines()
    assert len(lines) == len(set(lines))
    assert torchtrace("stats", "-q", *files).err == ""


def run(tmp_path, *args, **kwargs):
    return tool.torchtrace("run", "--python", tool.PYTHON, *args, cwd=tmp_path, **kwargs)


@pytest.mark.parametrize(
    ("args", "nearest"),
    [
        (["--include", "torch.covn2d"], "torch.conv2d"),
        (["--exclude", "torch.nn.functinal.*"], "torch.nn.functional.*"),
        (["-l", "2", "--include", "aten::ad"], "aten::add"),
        (["-l", "3", "--include", "torhc.nn.*"], "torch.nn.*"),
        (["-l", "1", "--include", "torch.no_such_thing*"], None),
    ],
)
def test_run_refuses_unknown_names(tmp_path, args, nearest):
    result = run(tmp_path, *args, "-o", "out", "-c", "print(1)")
    assert result.status == 125 and result.out == ""
    assert f"unknown API or operator {args[-1]}" in result.err
    assert nearest is None or f"did you mean {nearest}?" in result.err
    assert not (tmp_path / "out").exists()


@pytest.mark.torch
@pytest.mark.slow
def test_run_refuses_unknown_names_of_a_list(tmp_path):
    (tmp_path / "list.txt").write_text("torch.abs\ntorch._C._get_tracing_state\ntorch.rellu\n")
    args = (
        "-l",
        "0",
        "--api-list",
        "list.txt",
        "-o",
        "out",
        "-c",
        "import torch; torch.abs(torch.ones(1))",
    )
    result = run(tmp_path, *args)
    assert result.status == 125 and result.out == ""
    assert "list.txt:3: unknown API or operator torch.rellu" in result.err
    assert "mean torch.relu?" in result.err
    (tmp_path / "list.txt").write_text(
        "torch.abs\n?torch.rellu\ntorch.qqqzzz.xxx\n?torch.vvv.yyy\n"
    )
    result = run(tmp_path, *args)
    assert result.status == 0
    assert "list.txt: torch 2." in result.err
    assert "has nothing that is called torch.qqqzzz.xxx; traced if" in result.err


@pytest.mark.parametrize("option", ["--include", "--frame-exclude", "--library"])
def test_run_refuses_lists_of_nothing(tmp_path, option):
    result = run(tmp_path, option, ",", "-o", "out", "-c", "print(1)")
    assert result.status == 125 and result.out == ""
    assert f"{option}: ',' is an empty list" in result.err


def test_run_takes_names_that_the_program_makes(tmp_path):
    result = run(
        tmp_path,
        *("-l", "1,2,3", "-o", "out", "--include", "mypackage.*,__main__.f,mylib::*,?torch.none"),
        *("-c", "print(1)"),
    )
    assert result.status == 0 and result.out == "1\n"


@pytest.mark.torch
def test_run_knows_aliases(tmp_path):
    code = """if True:
        import torch
        x = torch.ones(1, 1, 4, 4)
        torch.nn.functional.conv2d(x, x)
        torch.add(x, x)
    """
    result = run(
        tmp_path, "-qo", "out", "--include", "torch.nn.functional.conv2d,?torch.none", "-c", code
    )
    assert result == tool.Result(0, "", "")
    assert (tmp_path / "out/api_apis.txt").read_text() == "torch.conv2d\n"

    names = tmp_path / "list.txt"
    names.write_text("torch.nn.functional.conv2d\n")
    assert run(tmp_path, "-ql0", "-o", "0", "--api-list", names, "-c", code).status == 0
    assert (tmp_path / "0/api_apis.txt").read_text() == "torch.conv2d\n"

    result = run(tmp_path, "-o", "none", "--include", "torch.softmax", "-c", code)
    lines = result.err.splitlines()
    assert lines[-2] == "torchtrace: no call matches --include torch.softmax"
    assert "next: " in lines[-1]
    args = ("--include", "aten::*", "-c", code)
    result = run(tmp_path, "-fo", "none", *args)
    assert "no call matches --include 'aten::*' (operators are calls of level 2: run -l 2)\n" in (
        result.err
    )
    result = run(tmp_path, *("-fl3", "-o", "none", "--frame-include", "nonexist*", "-c", code))
    assert "no call matches --frame-include 'nonexist*'\n" in result.err


@pytest.mark.torch
def test_run_tells_why_level_0_saw_nothing(tmp_path):
    names = tmp_path / "list.txt"

    def run_list(text):
        names.write_text(text)
        return run(
            tmp_path,
            *("-l", "0", "--api-list", names, "-fo", "out", "-c", "import torch; print(1)"),
        )

    result = run_list("mylib.f\nyourlib.sub.g\n")
    assert result.status == 0
    assert (
        "torchtrace: not seen: level 0: the API list names mylib, yourlib, which the program did "
        "not import\n" in result.err
    )
    result = run_list("torch.abs\nTorch.add\n")
    assert result.status == 125 and result.out == ""
    assert f"{names}:2: unknown API or operator Torch.add, did you" in result.err
    result = run_list("torch.ops.aten.add\n")
    assert result.status == 125 and result.out == ""
    assert result.err == (
        f"torchtrace: {names}:1: torch.ops.aten.add is an operator, which level 2 traces and not "
        "level 0: run -l 2 --include aten::add\n"
    )


def test_run_tells_unknown_variables(tmp_path):
    result = run(tmp_path, "-o", "out", "-c", "pass", env={"TORCHTRACE_LEVLES": "2"})
    assert result.status == 0
    assert (
        "torchtrace: unknown variable TORCHTRACE_LEVLES, did you mean TORCHTRACE_LEVELS?\n"
        in result.err
    )


def test_stacks_takes_its_value_as_a_word(tmp_path):
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:])")
    result = run(tmp_path, "-qo", "out", "--stacks", "all", "script.py", "all")
    assert result == tool.Result(0, "['all']\n", "")
    assert json.loads((tmp_path / "out/run.json").read_text())["stacks"] == "all"


def test_help_of_a_verb_under_apis():
    page = torchtrace("help", "apis", "coverage")
    assert page.status == 0
    assert page == torchtrace("apis", "coverage", "--help")
    groups = [line for line in torchtrace("help", "run").out.splitlines() if line.endswith(":")]
    assert "Level 0:" in groups
