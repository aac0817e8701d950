"""200 requests at once to a LiteLLM proxy that answers by vote: ``pip install "pets-llm[litellm,mock]"``.

First each question is asked of the model 8 times and the votes are counted here, then once of the proxy, of a model
that is `pets/gpt-oss`: the votes are then the proxy's business, at 5 traces per request on average. A mock server
stands in for a model. LiteLLM logs the cost of every request; the last line compares its sum with what the answers say.
"""

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp

import httpx

from pets import make_answer_type
from pets.mock import MockModel, PoolAnswers, running
from pets.pools import load
from pets.questions import question_set

LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=0)  # a proxy closes idle ones as it likes
SETTINGS = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # or it looks for prices in the network first
KEY = f"sk-{secrets.token_hex(16)}"
CONFIG = """
model_list:
  - model_name: gpt-oss
    litellm_params: {{model: openai/mock, api_base: "{url}", api_key: none,
                     input_cost_per_token: 0.000001, output_cost_per_token: 0.000002}}
  - model_name: voted
    litellm_params: {{model: pets/gpt-oss, input_cost_per_token: 0, output_cost_per_token: 0}}
    model_info: {{pets: {{budget: 5x}}}}
litellm_settings:
  custom_provider_map: [{{provider: pets, custom_handler: pets.integrations.litellm.handler}}]
  callbacks: [spend.logger]
general_settings: {{master_key: {key}}}
"""
LOG = """
import json
from litellm.integrations.custom_logger import CustomLogger
class Log(CustomLogger):
    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        entry = kwargs["standard_logging_object"]
        with open("spend.jsonl", "a") as file:
            file.write(json.dumps({"group": entry["model_group"], "cost": entry["response_cost"]}) + "\\n")
logger = Log()
"""
folder = Path(sys.argv[1] if sys.argv[1:] else mkdtemp())
problems = question_set("starter").problems[:200]
text = make_answer_type("text")


async def ask(url: str, model: str, n: int) -> list[list[dict]]:
    """The choices of every question, all asked at once."""
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=LIMITS, headers=headers) as client:
        bodies = (
            {"model": model, "messages": [{"role": "user", "content": p.prompt.content}]}
            | ({"n": n, "seed": secrets.randbelow(1 << 31)} if n > 1 else {})  # without one the mock draws as last time
            for p in problems
        )
        replies = await asyncio.gather(*(client.post("/chat/completions", json=body) for body in bodies))
    return [[choice["message"] for choice in reply.raise_for_status().json()["choices"]] for reply in replies]


def report(name: str, paid: int, winners: list[str]) -> None:
    """Print what was paid and how many answers are right."""
    right = sum(text.canonical(problem.gold) == winner for problem, winner in zip(problems, winners, strict=True))
    print(f"{name}: {paid} generations, {right} of {len(problems)} right")


mock = MockModel(PoolAnswers(load("starter")), prompts={str(p.prompt.content): p.id for p in problems})
with running(mock) as url, socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    (folder / "config.yaml").write_text(CONFIG.format(url=url, key=KEY), "utf-8")
    (folder / "spend.py").write_text(LOG, "utf-8")
    command = [str(Path(sys.executable).with_name("litellm")), "--config", "config.yaml", "--port", str(port)]
    with (folder / "proxy.log").open("wb") as log:
        proxy = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=os.environ | SETTINGS)
    try:
        address = f"http://127.0.0.1:{port}"
        while proxy.poll() is None:
            try:
                httpx.get(f"{address}/health/liveliness", timeout=5)
                break
            except httpx.HTTPError:
                time.sleep(0.5)
        replies = asyncio.run(ask(url, "mock", 8))
        forms = [[text.extract(message["content"]) for message in each] for each in replies]
        report("before", mock.stats.traces, [Counter(each).most_common(1)[0][0] for each in forms])
        before = mock.stats.traces
        replies = asyncio.run(ask(f"{address}/v1", "voted", 1))
        votes = [message["provider_specific_fields"]["pets"] for (message,) in replies]
        report("after", mock.stats.traces - before, [text.canonical(vote["answer"]) for vote in votes])
    finally:
        proxy.terminate()
        proxy.wait()
logged = [json.loads(line) for line in (folder / "spend.jsonl").read_text("utf-8").splitlines()]
ours, theirs = sum(vote["cost"] for vote in votes), sum(entry["cost"] for entry in logged)
print(f"spend of the votes: ${ours:.6f} by the answers, ${theirs:.6f} in LiteLLM's log")
