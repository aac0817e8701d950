"""What an operator cannot choose."""

import pytest

from pets.errors import InputError
from pets.gateway import Settings


@pytest.mark.parametrize(("name", "value"), [("timeout", -1.0), ("timeout", float("nan")), ("open_questions", 0)])
def test_settings_that_cannot_be_name_the_one(name, value):
    with pytest.raises(InputError, match=f"^{name} is .*got {value}\\.$"):
        Settings.of(**{name: value})


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/", "ftp://app.example", "https://", "null"])
def test_an_origin_is_a_scheme_and_a_host(origin):
    with pytest.raises(InputError, match="without a path"):
        Settings.of(cors_origins=("http://localhost:3000", "*", origin))
