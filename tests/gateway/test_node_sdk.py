"""OpenAI's Node SDK, unmodified, against the gateway.

It is looked for where NODE_PATH says: npm install --prefix DIR openai, then NODE_PATH=DIR/node_modules.
"""

import json
import os
import shutil
import subprocess

import pytest

from .conftest import run_gateway

pytestmark = pytest.mark.slow

SCRIPT = """
const OpenAI = require("openai");
const client = new OpenAI({ baseURL: process.argv[1], apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Question torn" }];
(async () => {
  const whole = await client.chat.completions.create({ model: "pets/mock", messages, pets: { answer: "choice" } });
  let text = "", last = null;
  for await (const chunk of await client.chat.completions.create({ model: "pets/mock", messages, stream: true })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    last = chunk;
  }
  let refused = null;
  try {
    await client.chat.completions.create({ model: "pets/mock", messages, pets: { max_traces: -1 } });
  } catch (error) { refused = [error.constructor.name, error.status, error.param]; }
  const models = (await client.models.list()).data.map(model => model.id);
  console.log(JSON.stringify({ whole, text, pets: last.pets, refused, models }));
})();
"""


def node(script, *words):
    return subprocess.run(["node", "-e", script, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module", autouse=True)
def sdk():
    if shutil.which("node") is None:
        pytest.skip("there is no node on this machine")
    if "NODE_PATH" not in os.environ or node('require("openai")').returncode:
        pytest.skip("the openai package of npm is not in NODE_PATH")


def test_voted_answers_whole_and_streamed():
    with run_gateway() as gateway:
        done = node(SCRIPT, f"{gateway.url}/v1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["whole"]["pets"]["answer"] in ("A", "B") and found["whole"]["pets"]["traces"] > 4
    assert f"boxed{{{found['whole']['pets']['answer']}}}" in found["whole"]["choices"][0]["message"]["content"]
    assert f"boxed{{{found['pets']['answer']}}}" in found["text"]
    assert found["refused"] == ["BadRequestError", 400, "pets.max_traces"]
    assert found["models"] == ["pets/mock", "mock"]
