"""torchtrace diff in CI: the steps of tools/github/action.yml, and the GitLab job of docs/DIFF.md,
run by bash as those services do."""

import os
import re
import shutil
import subprocess
import xml.etree.ElementTree

import pytest
import yaml

from tools.testing import whole_tool as tool

ACTION = yaml.safe_load((tool.ROOT / "tools/github/action.yml").read_text())
PAGE = (tool.ROOT / "docs/DIFF.md").read_text()
BEFORE = "def old(): pass\ndef both(): pass\nold()\nboth()\n"
AFTER = "import sys\ndef both(): pass\ndef new(x): pass\nboth()\nnew(sys.argv[1:])\n"


def git(folder, *args):
    words = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *args]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(name="checkout")
def two_commits(tmp_path):
    """A repository whose program calls another function at its second commit."""
    folder = tmp_path / "my checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    for text in (BEFORE, AFTER):
        (folder / "train.py").write_text(text)
        git(folder, "add", "train.py")
        git(folder, "commit", "-qm", "x")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "torchtrace").symlink_to(tool.TORCHTRACE)
    (tmp_path / "temporary").mkdir()
    return folder


def bash(script, checkout, env):
    place = checkout.parent
    env = tool.environment(
        {
            "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
            "TMPDIR": str(place / "temporary"),
            "TORCHTRACE_PYTHON": tool.PYTHON,
            **env,
        }
    )
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True)
    return tool.Result(done.returncode, done.stdout, done.stderr)


class Runner:
    """What GitHub does with a composite action."""

    def __init__(self, checkout, **inputs):
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(ACTION["inputs"])
        defaults = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
        self.known = {f"inputs.{name}": value for name, value in {**defaults, **given}.items()}
        self.checkout = checkout
        self.summary = checkout.parent / "summary.md"

    def value_of(self, text):
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: self.known[found[1]], text)

    def run(self):
        for step in ACTION["runs"]["steps"]:
            assert "${{" not in step["run"], "a value in a script is code"
            output = self.checkout.parent / f"{step['id']}.output"
            env = {name: self.value_of(text) for name, text in step["env"].items()}
            env |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.summary)}
            done = bash(step["run"], self.checkout, env)
            if output.exists():
                for line in output.read_text().splitlines():
                    name, value = line.split("=", 1)
                    self.known[f"steps.{step['id']}.outputs.{name}"] = value
            if done.status != 0:
                break
        return done

    def output(self, name):
        return self.value_of(ACTION["outputs"][name]["value"])


RECORD = {"record": "--levels 0 --library __main__", "program": "train.py a*b $(x)"}


def test_action_records_and_gates(checkout):
    base = git(checkout, "rev-parse", "HEAD~1")
    runner = Runner(checkout, base=base, **RECORD)
    done = runner.run()
    assert done.status == 1, done
    assert "added-api: only B calls __main__.new" in done.out
    assert "removed-api: only A calls __main__.old" in done.out
    with open(runner.output("report")) as report:
        text = report.read()
    assert text.startswith("# torchtrace diff\n\n- **failed** `added-api: ")
    assert runner.summary.read_text() == text
    (suite,) = xml.etree.ElementTree.parse(runner.output("junit")).getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "2")
    # Words of the program's arguments are data.
    shown = tool.torchtrace("dump", "torchtrace-diff/after", cwd=checkout)
    assert '["a*b", "$(x)"]' in shown.out
    assert git(checkout, "worktree", "list").count("\n") == 0

    # Two traces, and gates that don't fire.
    traces = {"before": "torchtrace-diff/before", "after": "torchtrace-diff/after"}
    runner = Runner(
        checkout, output="passed", fail_on="added-api", options="--include __main__.both", **traces
    )
    done = runner.run()
    assert (done.status, done.err) == (0, "") and done.out.endswith("passed: added-api\n")
    # One that can't be checked is no passed one.
    done = Runner(checkout, fail_on="memory=5%", **traces).run()
    assert done.status not in (0, None) and "has no memory" in done.err


def test_action_says_what_it_needs(checkout):
    done = Runner(checkout, before="x").run()
    assert done.status == 2 and "give 'program', or both" in done.out


def test_gitlab_job(checkout):
    (text,) = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if "script:" in text]
    (job,) = yaml.safe_load(text).values()
    script = "\n".join(job["script"]).replace("-l 1,2", "-l 0 --library __main__")
    script = re.sub(r"slower=\d+%", "removed-api", script)
    env = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": git(checkout, "rev-parse", "HEAD~1")}
    done = bash(script, checkout, env)
    assert done.status == 1, done
    report = checkout / job["artifacts"]["reports"]["junit"]
    (suite,) = xml.etree.ElementTree.parse(report).getroot()
    assert suite.attrib["failures"] == "2"
    shutil.rmtree(checkout)
