"""tools/test counts every case, and failures that have no case."""

import io
import json
import xml.etree.ElementTree as ElementTree

import pytest

from tools.lib import test_report

GTEST_XML = """<testsuites><testsuite name="A">
  <testcase name="Passes" status="run" result="completed" classname="A"/>
  <testcase name="Fails" status="run" result="completed" classname="A"><failure/></testcase>
  <testcase name="Skips" status="run" result="skipped" classname="A"><skipped/></testcase>
  <testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="A"/>
</testsuite></testsuites>"""


def verdicts(cases):
    return {case.name: case.verdict for case in cases}


def result_event(label, status, xml_path):
    return {
        "id": {"testResult": {"label": label}},
        "testResult": {
            "status": status,
            "testActionOutput": [{"name": "test.xml", "uri": xml_path.as_uri()}],
        },
    }


def events(*middle):
    return [json.dumps(event) for event in (*middle, {"id": {"buildFinished": {}}})]


def test_gtest_xml():
    root = ElementTree.fromstring(GTEST_XML)
    assert verdicts(test_report.xml_cases(root, "//a:b")) == {
        "//a:b A.Passes": "passed",
        "//a:b A.Fails": "failed",
        "//a:b A.Skips": "skipped",
        "//a:b A.DISABLED_Off": "skipped",
    }


def test_pytest_xml():
    root = ElementTree.fromstring(
        "<testsuites><testsuite>"
        '<testcase classname="cmd.run_test" name="test_a"/>'
        '<testcase classname="" name="cmd.broken_test"><error/></testcase>'
        "</testsuite></testsuites>"
    )
    assert verdicts(test_report.xml_cases(root)) == {
        "cmd.run_test.test_a": "passed",
        "cmd.broken_test": "failed",
    }


def test_target_not_built():
    lines = events({"id": {"targetCompleted": {"label": "//a:b_test"}}, "completed": {}})
    assert verdicts(test_report.bazel_cases(lines)) == {"//a:b_test (not built)": "failed"}


def test_crash_after_the_last_case(tmp_path):
    xml = tmp_path / "with space.xml"
    xml.write_text('<testsuite><testcase classname="A" name="B" status="run"/></testsuite>')
    lines = events(result_event("//a:b_test", "FAILED", xml))
    assert verdicts(test_report.bazel_cases(lines)) == {
        "//a:b_test A.B": "passed",
        "//a:b_test (failed)": "failed",
    }


def test_no_xml_at_all(tmp_path):
    lines = events(result_event("//a:b_test", "TIMEOUT", tmp_path / "none.xml"))
    assert verdicts(test_report.bazel_cases(lines)) == {"//a:b_test (timeout)": "failed"}


def test_bazel_that_died():
    assert verdicts(test_report.bazel_cases([])) == {"bazel did not finish": "failed"}


def test_checks():
    assert verdicts(
        test_report.line_cases(
            "ok      ruff\nfailed  text rules\nskipped aarch64\n", "tools/check: "
        )
    ) == {
        "tools/check: ruff": "passed",
        "tools/check: text rules": "failed",
        "tools/check: aarch64": "skipped",
    }


def test_what_took_longest():
    root = ElementTree.fromstring(
        '<testsuite><testcase classname="cmd.run_test" name="test_a" time="61.25"/>'
        '<testcase classname="cmd.run_test" name="test_b" time="0.5"/>'
        '<testcase classname="cmd.info_test" name="test_c" time="61"/></testsuite>'
    )
    out = io.StringIO()
    parts = [("Python", list(test_report.xml_cases(root)))]
    test_report.report_times(["30 checks", "90 Python tests"], parts, out)
    assert out.getvalue().split("\n\n") == [
        "\nSlowest test cases, in seconds:\n    61.2  cmd.run_test.test_a\n"
        "    61.0  cmd.info_test.test_c\n     0.5  cmd.run_test.test_b",
        "Slowest files and targets, in seconds of their cases:\n"
        "    61.8  cmd.run_test\n    61.0  cmd.info_test",
        "Minutes:\n     0.5  checks\n     1.5  Python tests\n     2.0  all\n",
    ]


@pytest.mark.parametrize(
    "verdict_list, code, last_line",
    [
        (["passed", "passed"], 0, "2 passed, 0 failed"),
        (["passed", "skipped"], 0, "1 passed, 0 failed, 1 skipped"),
        (["passed", "failed"], 1, "1 passed, 1 failed"),
        (["skipped"], 1, "0 passed, 0 failed, 1 skipped"),
        ([], 1, "0 passed, 0 failed"),
    ],
)
def test_sum(verdict_list, code, last_line):
    out = io.StringIO()
    cases = [test_report.Case("case", verdict) for verdict in verdict_list]
    assert test_report.report([("C++", cases)], out) == code
    assert out.getvalue().splitlines()[-1] == last_line
