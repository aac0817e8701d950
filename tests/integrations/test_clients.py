"""The clients that people have ask `pets serve`: OpenAI's two, LangChain's, LlamaIndex's and LiteLLM's own packages."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

langchain_openai = pytest.importorskip("langchain_openai", reason="`make integrations` installs the clients")

import litellm  # noqa: E402
import openai  # noqa: E402
from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.llms.openai_like import OpenAILike  # noqa: E402

from pets.gateway import Settings, build_gateway  # noqa: E402
from pets.gateway import running as gateway_running  # noqa: E402
from pets.mock import DistributionAnswers, MockModel, running  # noqa: E402

pytestmark = [pytest.mark.integrations, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]
QUESTION = "What is 17 + 26?"
MODEL = "pets/mock"
MESSAGES = [{"role": "user", "content": QUESTION}]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": SCHEMA}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
# What is asked of every client; a call of a tool and a JSON schema are answered with {"answer": "43"}.
FIELDS = {
    "whole": {},
    "streamed": {"stream": True},
    "tool": {"tools": [TOOL]},
    "streamed tool": {"tools": [TOOL], "stream": True},
    "schema": {"response_format": FORMAT},
    "streamed schema": {"response_format": FORMAT, "stream": True},
}
FOLDER = Path(sys.prefix)  # scripts/integrations.py puts node and its modules here
JAVASCRIPT = """
import OpenAI from "openai";
const [url, body] = process.argv.slice(1);
const reply = await new OpenAI({ baseURL: url, apiKey: "none" }).chat.completions.create(JSON.parse(body));
const pieces = [];
for await (const part of reply.choices ? [reply] : reply) {
  const message = part.choices[0]?.message ?? part.choices[0]?.delta;
  pieces.push(message?.tool_calls?.[0]?.function.arguments ?? message?.content ?? "");
}
console.log(pieces.join(""));
"""


@pytest.fixture(scope="module")
def url():
    """A gateway before a mock that is sure of its answer."""
    mock, settings = MockModel(DistributionAnswers({QUESTION: {"43": 1.0}})), Settings.of(answer="number")
    with running(mock) as upstream, gateway_running(build_gateway(upstream, settings=settings)) as address:
        yield f"{address}/v1"


def pieces(reply):
    """The contents of a completion or of a stream's chunks, or the arguments of their tool call."""
    for part in [reply] if hasattr(reply, "usage") and hasattr(reply.choices[0], "message") else reply:
        for choice in part.choices:
            message = getattr(choice, "message", None) or choice.delta
            calls = getattr(message, "tool_calls", None)
            yield (calls[0].function.arguments if calls else message.content) or ""


def by_openai(url, fields):
    client = openai.OpenAI(base_url=url, api_key="none")
    return "".join(pieces(client.chat.completions.create(model=MODEL, messages=MESSAGES, **fields)))


def by_litellm(url, fields):
    model = f"openai/{MODEL}"
    return "".join(pieces(litellm.completion(model, MESSAGES, api_base=url, api_key="none", **fields)))


def by_langchain(url, fields):
    client = langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL)
    stream = fields.pop("stream", False)
    client = client.bind_tools(fields["tools"]) if "tools" in fields else client.bind(**fields)
    parts = list(client.stream(QUESTION)) if stream else [client.invoke(QUESTION)]
    whole = sum(parts[1:], parts[0])
    return json.dumps(whole.tool_calls[0]["args"]) if whole.tool_calls else whole.text


def by_llama_index(url, fields):
    client = OpenAILike(api_base=url, api_key="none", model=MODEL, is_chat_model=True)
    messages, stream = [ChatMessage(role="user", content=QUESTION)], fields.pop("stream", False)
    last = list(client.stream_chat(messages, **fields))[-1] if stream else client.chat(messages, **fields)
    calls = last.message.additional_kwargs.get("tool_calls")
    return calls[0].function.arguments if calls else last.message.content


def by_javascript(url, fields):
    if not (FOLDER / "node_modules" / "openai").exists():
        pytest.skip("OpenAI's client for node is not installed; `make integrations` does it")
    body = json.dumps({"model": MODEL, "messages": MESSAGES, **fields})
    command = [FOLDER / "bin" / "node", "--input-type=module", "--eval", JAVASCRIPT, "--", url, body]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("form", FIELDS)
@pytest.mark.parametrize("client", [by_openai, by_javascript, by_langchain, by_llama_index, by_litellm])
def test_a_client_gets_the_answer_of_the_vote(url, client, form):
    text = client(url, dict(FIELDS[form]))
    if "tool" in form or "schema" in form:
        assert json.loads(text)["answer"] == "43"
    else:
        assert "43" in text
