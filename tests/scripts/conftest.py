"""A small synthetic pool."""

import pytest
from tests.report.conftest import make_pool


@pytest.fixture(scope="session")
def pool():
    return make_pool()
