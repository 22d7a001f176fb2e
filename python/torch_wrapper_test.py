"""TorchWrapper as users of the original tool call it."""

import csv
import json

import pytest

from python import warm_testing

python = warm_testing.python

pytestmark = pytest.mark.torch

EXAMPLE = """
import json, time
import torch, torchtrace

def my_code(size=3):
    a = torch.randn(1, size)
    b = torch.randn(1, size)
    c = a + b
    return torch.add(c, 1, alpha=2)

wrapper = torchtrace.TorchWrapper({config})
result = wrapper.start(my_code)
assert result.shape == (1, 3)
"""


def example(folder, config="", more=""):
    return python(EXAMPLE.replace("{config}", config) + more, folder).check()


def files(folder, suffix, out="output"):
    return sorted((folder / out).glob(f"*{suffix}"), key=lambda path: (len(path.name), path.name))


def test_the_example(tmp_path):
    more = "print(json.dumps([wrapper.getConfig(), wrapper.callRecords, time.time_ns()]))"
    config, records, now = json.loads(example(tmp_path, "", more).out)
    assert config == {
        "out_dir": "./output",
        "format": "json",
        "file_max_size": "128MB",
        "file_name_spec": "timestamp",
    }
    (path,) = files(tmp_path, ".json")
    assert path.name.startswith("TorchWrapper_Result_")
    assert json.loads(path.read_text()) == records
    # A call recorded at levels 0 and 1 counts once.
    assert {api: len(calls) - 1 for api, calls in records.items()} == {
        "torch.randn": 2,
        "torch.Tensor.__add__": 1,
        "torch.Tensor.add": 1,
        "torch.add": 1,
    }
    assert list(records["torch.randn"]) == ["TotalTime(ms)", "1", "2"]
    call = records["torch.add"]["1"]
    assert list(call) == ["detailedAPIName", "StartTimestamp", "CostTime(ms)", "Arguments"]
    assert call["detailedAPIName"] == "torch.add"
    assert 0 <= now - call["StartTimestamp"] < 60e9
    assert 0 < call["CostTime(ms)"] < 60_000
    assert call["Arguments"] == '((Tensor([1, 3], "float32"), 1), {"alpha": 2})'
    assert records["torch.randn"]["2"]["Arguments"] == "((1, 3), {})"
    for calls in records.values():
        costs = [call["CostTime(ms)"] for name, call in calls.items() if name != "TotalTime(ms)"]
        assert calls["TotalTime(ms)"] == pytest.approx(sum(costs))


def test_calls_take_the_time_that_they_take(tmp_path):
    code = """
    import json, time
    import torch, torchtrace

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.1)
            return x

    wrapper = torchtrace.TorchWrapper()
    wrapper.start(Slow.apply, torch.ones(2))
    print(json.dumps(wrapper.callRecords))
    """
    records = json.loads(python(code, tmp_path).check().out)
    (calls,) = (calls for api, calls in records.items() if calls["TotalTime(ms)"] >= 100)
    assert calls["TotalTime(ms)"] == calls["1"]["CostTime(ms)"] == pytest.approx(100, rel=0.1)


def test_records_go_on(tmp_path):
    more = """
first = {api: dict(calls) for api, calls in wrapper.callRecords.items()}
def fails(*shape, dtype):
    torch.randn(*shape, dtype=dtype)
    raise KeyError("mine")
try:
    wrapper.start(fails, 4, dtype=torch.float64)
except KeyError as error:
    print(repr(error))
print(json.dumps([first, wrapper.callRecords]))
"""
    ended = example(tmp_path, '{"out_dir": "a/b"}', more)
    assert ended.err == ""
    error, lines = ended.out.splitlines()
    assert error == "KeyError('mine')"
    first, second = json.loads(lines)
    assert list(second["torch.randn"]) == ["TotalTime(ms)", "1", "2", "3"]
    assert second["torch.randn"]["3"]["Arguments"] == '((4,), {"dtype": torch.float64})'
    assert second["torch.randn"]["2"] == first["torch.randn"]["2"]
    # Each start writes all records.
    written = [json.loads(path.read_text()) for path in files(tmp_path, ".json", "a/b")]
    assert written == [first, second]


def test_csv_is_rolled_over(tmp_path):
    config = '{"format": "csv", "file_max_size": "1KB", "file_name_spec": "mine"}'
    more = """
wrapper.start(lambda: [my_code() for _ in range(10)])
print(json.dumps(wrapper.callRecords))
"""
    records = json.loads(example(tmp_path, config, more).out)
    paths = files(tmp_path, ".csv")
    assert [path.name for path in paths[:3]] == ["mine.csv", "mine-2.csv", "mine-3.csv"]
    rows = []
    for path in paths:
        assert path.stat().st_size <= 1024
        rows += csv.DictReader(path.read_text().splitlines())
    assert list(rows[0]) == [
        "API Name",
        "Total Time (ms)",
        "Call Number",
        "Start Timestamp",
        "Cost Time (ms)",
        "Arguments",
    ]
    assert len(rows) == 11 * 5
    for row in rows:
        call = records[row["API Name"]][row["Call Number"]]
        assert float(row["Total Time (ms)"]) == records[row["API Name"]]["TotalTime(ms)"]
        assert int(row["Start Timestamp"]) == call["StartTimestamp"]
        assert float(row["Cost Time (ms)"]) == call["CostTime(ms)"]
        assert row["Arguments"] == call["Arguments"]


def test_as_a_data_frame(tmp_path):
    pytest.importorskip("pandas")
    more = """
frame = wrapper.to_dataframe()
print(frame.equals(wrapper.getDFFormattedCallRecords()))
print(json.dumps([list(frame.columns), len(frame), frame["Call Number"].tolist()]))
print(frame[frame["API Name"] == "torch.add"]["Arguments"].item())
"""
    same, shape, arguments = example(tmp_path, "", more).out.splitlines()
    assert same == "True"
    columns, rows, numbers = json.loads(shape)
    assert columns == [
        "API Name",
        "Total Time (ms)",
        "Call Number",
        "Start Timestamp",
        "Cost Time (ms)",
        "Arguments",
    ]
    assert rows == 5 and numbers == [1, 2, 1, 1, 1]
    assert arguments == '((Tensor([1, 3], "float32"), 1), {"alpha": 2})'


def test_without_pandas(tmp_path):
    code = """
    import sys
    import torchtrace
    sys.modules["pandas"] = None
    try:
        torchtrace.TorchWrapper().to_dataframe()
    except ImportError as error:
        print(error)
    """
    out = python(code, tmp_path).check().out
    assert out.startswith("a DataFrame needs pandas: python3 -m pip install pandas")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        ('"csv"', "TypeError: config is a str; a dict is expected"),
        ('{"fromat": "csv"}', "ValueError: unknown key 'fromat' in config, did you mean 'format'?"),
        ('{"format": "xlsx"}', "ValueError: config['format'] is 'xlsx'; there are json and csv"),
        ('{"out_dir": 3}', "ValueError: config['out_dir'] is 3; a str that isn't empty"),
        ('{"out_dir": ""}', "ValueError: config['out_dir'] is ''; a str that isn't empty"),
        ('{"file_max_size": "big"}', "ValueError: 'big' is not a size of a file"),
        ('{"file_max_size": "0MB"}', "ValueError: '0MB' is not a size of a file"),
        ('{"file_name_spec": "{x}"}', "ValueError: the files' name '{x}' has an unknown '{x}'"),
    ],
)
def test_what_a_config_may_not_hold(tmp_path, config, error):
    code = f"import torchtrace\ntorchtrace.TorchWrapper({config})\n"
    ended = python(code, tmp_path)
    assert ended.status == 1 and error in ended.err.splitlines()[-1]


def test_trouble_comes_before_the_function(tmp_path):
    code = """
    import torchtrace
    def never():
        raise AssertionError
    def told(call):
        try:
            call()
        except Exception as error:
            print(type(error).__name__, error)
    open("file", "w").close()
    told(lambda: torchtrace.TorchWrapper({"out_dir": "file"}).start(never))
    told(lambda: torchtrace.TorchWrapper().start(3))
    with torchtrace.trace("out"):
        told(lambda: torchtrace.TorchWrapper().start(never))
    wrapper = torchtrace.TorchWrapper()
    told(lambda: wrapper.start(lambda: wrapper.start(never)))
    """
    lines = python(code, tmp_path).check().out.splitlines()
    assert lines[0].startswith("FileExistsError")
    assert lines[1] == "TypeError start() takes a function, and 3 is not one"
    assert all(line.startswith("RuntimeError a trace is open already") for line in lines[2:])
    assert len(lines) == 4


def test_nothing_is_left_behind(tmp_path):
    more = """
import os, tempfile
def forks():
    torch.zeros(1)
    if (child := os.fork()) == 0:
        torch.zeros(2)
        return None
    os.waitpid(child, 0)
me = os.getpid()
wrapper.start(forks)
if os.getpid() == me:
    # The child ended as programs do, and took nothing away.
    print(len(wrapper.callRecords["torch.zeros"]), len(os.listdir(tempfile.gettempdir())))
"""
    (tmp_path / "tmp").mkdir()
    code = EXAMPLE.replace("{config}", "") + more
    ended = python(code, tmp_path, env={"TMPDIR": str(tmp_path / "tmp")}).check()
    assert ended.out == "3 1\n"
    assert not list((tmp_path / "tmp").iterdir())
    assert len(files(tmp_path, ".json")) == 2
