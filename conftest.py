"""For all Python tests."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def forget_traces(request):
    """Deletes the runs that the tests of a file share, after its last test."""
    yield
    for value in vars(request.module).values():
        if hasattr(value, "cache_clear"):
            value.cache_clear()
