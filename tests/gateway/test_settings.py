"""What an operator cannot choose."""

import pytest

from pets.errors import InputError
from pets.gateway import Settings


@pytest.mark.parametrize(("name", "value"), [("timeout", -1.0), ("timeout", float("nan")), ("queue", 0)])
def test_settings_that_cannot_be_name_the_one(name, value):
    with pytest.raises(InputError, match=f"^{name} is .*got {value}\\.$"):
        Settings(**{name: value})
