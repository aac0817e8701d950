"""``pets`` from the shell: the table, the plot, and one line with exit 2 for a mistake."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from pets.cli.main import cli


def pets(*args):
    code = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False)


def test_the_demo_prints_a_table_and_a_plot():
    run = pets("demo", "--questions", "20", "--repetitions", "2")
    assert run.returncode == 0, run.stderr
    assert "traces a question" in run.stdout and "to reach 0.95" in run.stdout
    assert "20 synthetic questions" in run.stderr and "\x1b" not in run.stdout


def test_the_same_seed_gives_the_same_table():
    args = ("demo", "--questions", "12", "--repetitions", "1", "--seed", "3")
    assert pets(*args).stdout == pets(*args).stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("demo", "--policy", "okg:prior=x"), "pets: okg: prior='x' is not a float or learned"),
        (("demo", "--against", "nope"), "pets: there is no policy 'nope'"),
        (("demo", "--questions", "0"), "--questions"),
        (("nope",), "No such command"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(args, message):
    run = pets(*args)
    assert run.returncode == 2 and message in run.stderr and "Traceback" not in run.stderr


def test_help_teaches():
    result = CliRunner().invoke(cli, ["demo", "--help"])
    assert result.exit_code == 0 and "same traces" in result.output
