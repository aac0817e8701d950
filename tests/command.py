"""``pets ...`` in the process of the tests: a start of the interpreter takes longer than most of what they run."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from pets.cli.main import main

__all__ = ["pets"]


def pets(*words: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command as a shell would, through its entry point; its exit code and what it wrote."""
    command = ["pets", *map(str, words)]
    with (
        pytest.MonkeyPatch.context() as patch,
        CliRunner().isolation(stdin) as (stdout, stderr, _),
        pytest.raises(SystemExit) as end,
    ):
        patch.setattr(sys, "argv", command)
        main()
    return subprocess.CompletedProcess(command, end.value.code, stdout.getvalue().decode(), stderr.getvalue().decode())
