"""APITracer as users of api_tracer call it, and the names of APIs."""

import json
import subprocess
import sys
import textwrap

import pytest
import yaml

from python import module_testing as testing
from python import warm_testing

fresh, python = testing.python, warm_testing.python

pytestmark = pytest.mark.torch

EXAMPLE = """
import torch
from torchtrace import APITracer
tracer = APITracer(dialect="torch", output_path="trace_output", levels={levels}{more})
tracer.start()
tensor1 = torch.randn(2, 3, device="cpu")
tensor2 = torch.ones(2, 3)
result = torch.add(tensor1, tensor2, alpha=10)
final_sum = result.sum()
tracer.stop()
torch.zeros(1)
"""

LEVEL_1 = """torch.randn(2, 3, device="cpu")
torch.ones(2, 3)
torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
torch.Tensor.sum(Tensor([2, 3], "float32"))
"""


def test_levels_0_and_1_merged(tmp_path):
    python(EXAMPLE.format(levels="[0, 1]", more=", merge_output=True"), tmp_path).check()
    lines = (tmp_path / "trace_output/api_trace.txt").read_text().splitlines()
    # Each call of the program, at level 0 and at level 1.
    assert lines == [line for line in LEVEL_1.splitlines() for _ in (0, 1)]


def test_the_default_is_level_0(tmp_path):
    code = EXAMPLE.replace(", levels={levels}{more}", "")
    python(code, tmp_path).check()
    assert (tmp_path / "trace_output/api_trace_level_0.txt").read_text() == LEVEL_1


def test_it_may_be_started_and_stopped_twice(tmp_path):
    code = EXAMPLE.format(levels="1", more="").replace("tracer.start()", "tracer.start();" * 2)
    code = "from torchtrace import APITracer\nAPITracer('torch').stop()\n" + code
    python(code.replace("tracer.stop()", "tracer.stop();" * 2), tmp_path).check()
    assert (tmp_path / "trace_output/api_trace_level_1.txt").read_text() == LEVEL_1


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_example_of_api_tracer(tmp_path):
    fresh(EXAMPLE.format(levels="[1, 2]", more=""), tmp_path).check()
    out = tmp_path / "trace_output"
    assert (out / "api_trace_level_1.txt").read_text() == LEVEL_1
    assert "aten::add.Tensor" in (out / "api_apis_level_2.txt").read_text()
    statistics = (out / "api_statistics_level_1.txt").read_text()
    assert statistics.startswith("Total APIs: 4\nTotal API calls: 4\n")
    kinds = ["apis.txt", "configs.txt", "statistics.txt", "trace.txt", "trace.yaml"]
    for level in (1, 2):
        for kind in kinds:
            stem, suffix = kind.split(".")
            assert f"api_{stem}_level_{level}.{suffix}" in files(out)


def test_merged(tmp_path):
    python(EXAMPLE.format(levels="[1, 2]", more=", merge_output=True"), tmp_path).check()
    lines = (tmp_path / "trace_output/api_trace.txt").read_text().splitlines()
    assert [line for line in lines if line.startswith("torch.")] == LEVEL_1.splitlines()
    assert not list((tmp_path / "trace_output").glob("*_level_*"))


def test_an_earlier_trace_is_overwritten_and_nothing_else(tmp_path):
    (tmp_path / "trace_output").mkdir()
    (tmp_path / "trace_output/notes.txt").write_text("mine")
    code = EXAMPLE.format(levels="1", more="")
    python(code, tmp_path).check()
    python(code + "tracer.start(); torch.ones(3); tracer.stop()\n", tmp_path).check()
    assert (tmp_path / "trace_output/api_trace_level_1.txt").read_text() == "torch.ones(3)\n"
    assert (tmp_path / "trace_output/notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments, error",
    [
        ("stack_format='long'", "ValueError: unknown stack_format 'long'"),
        ("dialect='jax', levels=1).start(", "ValueError: unknown dialect 'jax'"),
        ("buffer=3", "TypeError: "),
    ],
)
def test_errors(tmp_path, arguments, error):
    ended = python(f"import torchtrace\ntorchtrace.APITracer({arguments})\n", tmp_path)
    assert ended.status == 1 and ended.err.splitlines()[-1].startswith(error)
    assert not (tmp_path / "trace_output").exists()


STEP = """import os, torch, torchtrace
def step(x):
    return torch.add(x, 1)
for form in "short", "api", "full":
    with torchtrace.APITracer(levels=[1, 2], record_stack=True, stack_format=form):
        for _ in range(5):
            step(torch.ones(2))
    torchtrace.APITracer.parse_stacks_from_trace("trace_output", f"parsed_{form}", "_x")
    os.rename("trace_output", form)
"""


@pytest.fixture(scope="module")
def stacks_in_all_forms(tmp_path_factory):
    """The folder of a program that recorded its stacks in each form."""
    folder = tmp_path_factory.mktemp("forms")
    fresh(STEP, folder).check()
    return folder


@pytest.mark.parametrize(
    "form, frames",
    [
        ("short", ["script.py:3 in step", "script.py:7 in <module>"]),
        ("api", ["__main__.script.py.step", "__main__.script.py.<module>"]),
        (
            "full",
            [
                '  File "{script}", line 3, in step\n    return torch.add(x, 1)',
                '  File "{script}", line 7, in <module>\n    step(torch.ones(2))',
            ],
        ),
    ],
)
def test_record_stack(stacks_in_all_forms, form, frames):
    folder = stacks_in_all_forms
    frames = [frame.format(script=folder / "script.py") for frame in frames]
    out = folder / form
    stacks = yaml.safe_load((out / "api_stacks_level_1.yaml").read_text())
    assert stacks == {
        "torch.add": {"3stacks": [frames] * 3},
        "torch.ones": {"3stacks": [frames[1:]] * 3},
    }
    stacks = yaml.safe_load((out / "api_stacks_level_2.yaml").read_text())
    assert stacks["aten::add.Tensor"] == {"3stacks": [frames] * 3}
    calls = yaml.safe_load((out / "api_trace_level_1.yaml").read_text())
    assert [call["stack"] for call in calls if call["api"] == "torch.add"] == [frames] * 5
    assert [call["id"] for call in calls] == sorted(call["id"] for call in calls)
    parsed = yaml.safe_load((folder / f"parsed_{form}/api_stacks_x.yaml").read_text())
    assert {"torch.add", "aten::add.Tensor"} <= set(parsed)


def test_no_stacks_unless_asked_for(tmp_path):
    python(EXAMPLE.format(levels="1", more=""), tmp_path).check()
    assert not list((tmp_path / "trace_output").glob("api_stacks*"))


def test_parse_configs_from_trace(tmp_path):
    (tmp_path / "api_trace.txt").write_text(LEVEL_1 + LEVEL_1)
    python(
        """
        from torchtrace import APITracer
        APITracer.parse_configs_from_trace("api_trace.txt", "parsed/here", "_mine")
        try:
            APITracer.parse_configs_from_trace("nothing.txt", "parsed/here")
        except (FileNotFoundError, ValueError, RuntimeError) as error:
            print(error)
        """,
        tmp_path,
    ).check()
    out = tmp_path / "parsed/here"
    assert files(out) == [
        "api_apis_mine.txt",
        "api_configs_mine.txt",
        "api_statistics_mine.txt",
    ]
    assert (out / "api_configs_mine.txt").read_text().splitlines() == sorted(LEVEL_1.splitlines())
    statistics = (out / "api_statistics_mine.txt").read_text()
    assert statistics.startswith("Total APIs: 4\nTotal API calls: 8\n")


def test_api_names(tmp_path):
    ended = python(
        """
        import collections, json, operator, random
        import numpy, torch, torchtrace
        import torch.nn.functional as F
        names = {
            "torch.relu": torch.relu,
            "torch.norm": torch.functional.norm,
            "torch.nn.functional.linear": F.linear,
            "torch.Tensor.add": torch.Tensor.add,
            "torch.Tensor.sum": torch.ones(2).sum,
            "torch.Tensor.backward": torch.ones(2).backward,
            "torch.Tensor.shape.__get__": torch.Tensor.shape.__get__,
            "torch.nn.Linear": torch.nn.Linear,
            "torch.nn.Module.train": torch.nn.Linear(1, 1).train,
            "torch.ops.aten.add.Tensor": torch.ops.aten.add.Tensor,
            "torch.ops.aten.relu.default": torch.ops.aten.relu.default,
            "torch.ops.aten.add": torch.ops.aten.add,
            "numpy.linalg.norm": numpy.linalg.norm,
            "torch.optim.Adam": torch.optim.Adam,
            "torch.optim.Adam.step": torch.optim.Adam.step,
            "torch.nn.Module.__call__": torch.nn.Module.__call__,
            "torch.nn.functional": F,
            "torch.strided": torch.strided,
            "collections.OrderedDict": collections.OrderedDict,
            "len": len,
            # torch imports these under names of its own.
            "int": int,
            "str.join": str.join,
            # Methods of hidden objects and modules.
            "random.random": random.random,
            "numpy.random.rand": numpy.random.rand,
            "operator.add": operator.add,
        }
        found = {wanted: torchtrace.getAPIName(api) for wanted, api in names.items()}
        print(json.dumps(found))
        print(json.dumps(torchtrace.api_aliases(torch.norm)))
        try:
            torchtrace.api_name(3)
        except ValueError as error:
            print(error)
        """,
        tmp_path,
    ).check()
    found, aliases, error = ended.out.splitlines()
    assert all(wanted == name for wanted, name in json.loads(found).items()), found
    assert "torch.functional.norm" in json.loads(aliases)
    assert error == "int objects have no API name"


def test_no_name_leads_to_something_else(tmp_path):
    (tmp_path / "decorated.py").write_text(
        textwrap.dedent(
            """
            import functools, torch

            @functools.wraps(torch.relu)
            def copied(x):
                return torch.relu(x)

            def decorate(function):
                return functools.wraps(function)(lambda *args: function(*args))

            @decorate
            def own(x):
                return x

            class Holder:
                @functools.wraps(torch.relu)
                def method(self):
                    pass
                stolen = decorate(torch.Tensor.add)
                @decorate
                def decorated(self):
                    pass

            shown = decorate(torch.relu)
            hidden = [decorate(torch.relu), decorate(len), functools.partial(own), lambda: 0]
            by_lambda = lambda: 0

            def local():
                class Local:
                    pass
                return [local.__code__, lambda: 0, Local]
            """
        )
    )
    ended = python(
        """
        import json, torch, torchtrace, decorated
        from decorated import Holder, hidden, local
        known = [decorated.copied, decorated.own, Holder.method, Holder().method, Holder.stolen]
        known += [Holder.decorated, decorated.shown, decorated.by_lambda, *hidden[:2]]
        for api in known:
            print(torchtrace.api_name(api))
        for api in [*hidden[2:], *local()]:
            try:
                print("named", torchtrace.api_name(api))
            except ValueError as error:
                print(error)
        """,
        tmp_path,
    ).check()
    names = ended.out.splitlines()
    assert names[:10] == [
        "decorated.copied",
        "decorated.own",
        "decorated.Holder.method",
        "decorated.Holder.method",
        "torch.Tensor.add",
        "decorated.Holder.decorated",
        "decorated.shown",
        "decorated.by_lambda",
        "torch.relu",
        "len",
    ]
    assert all("no API name" in each for each in names[10:])
    assert len(names) == 15


def test_names_are_those_of_the_list(tmp_path):
    # `torchtrace apis name` uses this list, which level 0 traces.
    folder = testing.ROOT / "dialects/torch/api_list"
    ended = python(
        f"""
        import sys, torch, torchtrace
        import torch.utils.data, torch.distributed, torch.sparse, torch.signal
        sys.path.insert(0, {str(folder)!r})
        import put_api_list
        _, rows = put_api_list.read(put_api_list.LIST.read_text("utf-8"))
        counted, other = 0, []
        for (name, _), versions in rows.items():
            if put_api_list.minor_text(torch.__version__) not in versions:
                continue
            *owners, last = name.split(".")
            owner = torch
            for each in owners[1:]:
                owner = getattr(owner, each, None)
            # Not all modules are imported, and not all that is listed is in every build.
            api = vars(owner).get(last, getattr(owner, last, None)) if owner is not None else None
            if api is None:
                continue
            api = getattr(api, "__func__", api)
            counted += 1
            if torchtrace.api_name(api) != name:
                other.append(name)
        print(counted)
        print(*other)
        """,
        tmp_path,
    ).check()
    counted, other = ended.out.splitlines()
    assert int(counted) > 2000
    # Objects of operators, and placeholders that exist in several places.
    assert set(other.split()) <= {
        "torch.nn.Module.forward",
        "torch.quantized_gru",
        "torch.quantized_lstm",
    }


@pytest.mark.parametrize(
    "name", ["numpy.linalg.norm", "numpy.zeros", "json.loads", "collections.OrderedDict"]
)
def test_names_of_other_libraries_are_those_of_apis_name(tmp_path, name):
    command = [testing.TORCHTRACE, "apis", "name", name, "--python", sys.executable]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    module = name.rpartition(".")[0]
    ended = python(
        f"import torchtrace, {module}\nprint(torchtrace.api_name({name}))\n", tmp_path
    ).check()
    assert json.loads(done.stdout)["api"] == ended.out.strip() == name


def test_names_are_those_of_level_1(tmp_path):
    ended = python(
        """
        import json, torch, torchtrace
        import torch.nn.functional as F
        x = torch.ones(2, 2)
        apis = [torch.relu, F.relu, F.softplus, torch.Tensor.add, torch.functional.norm]
        with torchtrace.trace("out"):
            torch.relu(x), F.relu(x), F.softplus(x), x.add(x), torch.norm(x)
        print(json.dumps([torchtrace.api_name(api) for api in apis]))
        """,
        tmp_path,
    ).check()
    assert ended.apis() == json.loads(ended.out)
