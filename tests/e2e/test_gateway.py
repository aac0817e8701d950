"""`pets serve` alone: the OpenAI Python SDK, unmodified, gets voted answers from a real model on this machine."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.timeout(600)

CODE = "import sys; from pets.cli.main import main; sys.argv[0] = 'pets'; main()"
ASKED = "What is the capital of France? Answer with A or B alone. (A) Paris (B) London"


@pytest.fixture
def url(weights):
    words = ["serve", "--port", "0", "--answer", "choice:options=2", "--local", "context=384", "--local", "slots=4"]
    command = [sys.executable, "-c", CODE, *words, "--budget", "4x", "--max-traces", "4"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = iter(process.stderr.readline, "")
            yield next((line.split()[0] for line in said if line.startswith("http")), None)
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_voted_and_plain_answers_of_a_local_model(openai, url):
    assert url is not None, "it did not start"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300) as client:
        voted, plain = (model.id for model in client.models.list())
        assert voted == f"pets/{plain}" and "SmolLM2" in plain
        messages = [{"role": "user", "content": ASKED}]
        reply = client.chat.completions.create(model=voted, messages=messages, max_tokens=24)
        about = reply.pets
        assert 2 <= about["traces"] == sum(about["votes"].values()) + about["no_answer"] <= 4 - about["cancelled"]
        assert about["answer"] is None or about["answer"] in reply.choices[0].message.content
        assert 4 <= reply.usage.completion_tokens <= 4 * 24 and reply.choices[0].logprobs is None
        once = client.chat.completions.create(model=plain, messages=messages, max_tokens=4)
        assert once.choices[0].message.content and once.usage.completion_tokens <= 4
