"""A pytest plugin: the outcome of each test is a result."""

import outcome


def pytest_runtest_logreport(report):
    if report.when == "call" or not report.passed:
        outcome.keep(f"{report.nodeid} {report.when}", report.outcome)


def pytest_collectreport(report):
    if report.failed:
        outcome.keep(f"{report.nodeid} collected", report.outcome)
