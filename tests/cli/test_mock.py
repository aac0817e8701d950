"""``pets mock`` from the shell: it serves, says where, stops cleanly, and refuses in one line."""

import json
import re
import signal
import socket
import subprocess
import sys
from dataclasses import fields

import httpx
import pytest
from click.testing import CliRunner

from pets.cli.main import cli
from pets.cli.mock import parse_faults
from pets.mock import Faults
from pets.questions import question_set

from ..command import pets
from ..waiting import PATIENCE_S, wait_until

MAIN = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"


@pytest.fixture
def start(popen):
    """``start(...)`` runs the verb until the test is over; gives the process and its URL."""

    def run(*args):
        command = [sys.executable, "-c", MAIN, "mock", "--port", "0", *args]
        process = popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = process.stderr.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+/v1) ", line)
        assert found, line + process.stderr.read()
        return process, found[1]

    return run


def refused(*args):
    result = pets("mock", *args)
    assert result.returncode == 2 and result.stdout == ""
    return result.stderr


def ask(url, prompt, **fields):
    return httpx.post(f"{url}/completions", json={"model": "mock", "prompt": prompt, **fields})


def test_it_serves_until_interrupted(start):
    process, url = start("made-up:questions=3")
    assert ask(url, "q1", n=4).json()["usage"]["completion_tokens"] > 4
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "Requests: 1, traces served: 4.\n")


def test_a_hanging_client_does_not_keep_it_from_stopping(start):
    process, url = start("--fault", "hang=1")
    with pytest.raises(httpx.ReadTimeout), httpx.Client(timeout=httpx.Timeout(PATIENCE_S, read=0.3)) as client:
        client.post(f"{url}/completions", json={"model": "mock", "prompt": "q1"})
    stats = url.removesuffix("/v1") + "/mock/stats"
    wait_until(lambda: httpx.get(stats).json()["faults"] == {"hang": 1})
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S) == ("", "Requests: 1, traces served: 0, hang 1.\n")
    assert process.returncode == 0


def test_it_answers_from_a_pool_and_from_a_file_of_answers(start, tmp_path):
    pool, answers = tmp_path / "pool.jsonl", tmp_path / "answers.json"
    pool.write_text('{"id": "p1", "gold": "B", "answers": ["B", "B"], "tokens": [5, 6]}\n')
    answers.write_text('{"Capital of France?": {"Paris": 1}}')
    _, recorded = start(pool)
    _, known = start(answers, "--model", "m", "--api-key", "k")
    replies = [ask(recorded, "p1", seed=seed).json() for seed in (0, 1)]
    assert sorted(reply["usage"]["completion_tokens"] for reply in replies) == [5, 6]
    body, key = {"model": "m", "prompt": "Capital of France?"}, {"authorization": "Bearer k"}
    reply = httpx.post(f"{known}/completions", json=body, headers=key)
    assert r"\boxed{Paris}" in reply.text


def test_the_starter_sets_own_prompts_get_their_own_answers(start):
    process, url = start("starter")
    problems = {problem.id: problem for problem in question_set("starter").problems}
    prompt = problems["fact-square"].prompt.content
    assert ask(url, prompt, n=3).status_code == 200
    chat = {"model": "mock", "messages": [{"role": "user", "content": prompt}]}
    assert httpx.post(f"{url}/chat/completions", json=chat).status_code == 200
    stats = httpx.get(url.removesuffix("/v1") + "/mock/stats?questions=1").json()
    assert (stats["questions"], stats["unmatched"]) == ({"fact-square": 4}, 0)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S)[1] == "Requests: 2, traces served: 4.\n"


def test_a_prompt_that_names_no_question_is_told_once(start):
    process, url = start("made-up:questions=3")
    for prompt in ("q1", "What is\n2 + 2?", "x" * 500):
        ask(url, prompt)
    process.send_signal(signal.SIGINT)
    told, last = process.communicate(timeout=PATIENCE_S)[1].splitlines()
    assert told.startswith(r'A prompt names no question: "What is\n2 + 2?".')
    assert last == "Requests: 3, traces served: 3, prompts that name no question: 2."


def test_every_fault_is_named_with_its_rate_and_explained(start):
    text = "".join(CliRunner().invoke(cli, ["mock", "--help"]).output.split())  # wrapped within words, too
    helps = {spec.name.replace("_", "-"): spec.metadata.get("help") for spec in fields(Faults)}
    texts = [f"{name}: {words}" for name, words in helps.items() if words]
    assert len(texts) == 9 and all(explained.replace(" ", "") in text for explained in texts)
    faults = parse_faults(["slow=0.1:2", "rate-limit=0.2:5", "hang=0.3"])
    assert faults == Faults(slow=0.1, slow_seconds=2, rate_limit=0.2, retry_after=5, hang=0.3)
    _, url = start("--fault", "error-500=1")
    assert ask(url, "q1").status_code == 500
    assert json.loads(httpx.get(url.removesuffix("/v1") + "/mock/stats").text)["faults"] == {"error_500": 1}


def test_a_busy_port_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refused("--port", port)
    found = f"pets: cannot listen on 127.0.0.1:{port}: Address already in use."
    assert line == f"{found} Choose another --port; 0 takes a free one.\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere.jsonl"], "nowhere"),
        (["--fault", "hang=1.5"], "hang is in [0, 1]; got 1.5"),
        (["--fault", "hang=0.6", "--fault", "error-500=0.6"], "add up to 1.2"),
        (["--fault", "hung=0.1"], "NAME one of rate-limit, error-500, hang,"),
        (["--fault", "hang=0.1:3"], "with :SECONDS after slow and rate-limit"),
        (["--fault", "hang=0.1", "--fault", "hang=0.2"], "given once"),
        (["nowhere.json"], "nowhere"),
        (["made-up:count=3"], "made-up:questions=N,options=N,strength=X; got 'count=3'"),
        (["made-up:questions=0"], "at least 1 question"),
        (["--tokens-per-second", "-1"], "tokens per second"),
        (["--host", "198.51.100.7"], "cannot listen on 198.51.100.7"),
    ],
)
def test_a_mistake_is_one_line(args, says):
    line = refused(*args)
    assert line.startswith("pets: ") and says in line and line.count("\n") == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"q": 5}', '{"q": {"A": 2}}', "{}"])
def test_bad_answers_are_one_line(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    assert refused(tmp_path / "a.json").count("\n") == 1


def test_a_folder_of_several_pools_is_one_line(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text('{"id": "p1", "gold": "B", "answers": ["B"]}\n')
    line = refused(tmp_path)
    assert line.startswith("pets: ") and "holds 2 pools" in line and line.count("\n") == 1
