"""Two hundred worlds of the simulation; ``make simulate SEEDS=10000`` lives through more."""

import subprocess
import sys
from pathlib import Path

import pytest

WORLDS = 200


@pytest.mark.timeout(600)
def test_two_hundred_worlds_keep_every_law():
    command = [sys.executable, "-m", "tests.simulation", str(WORLDS)]
    result = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{WORLDS} of {WORLDS} worlds kept every law" in result.stdout
