"""The clients that people have ask `pets serve`: OpenAI's, LangChain's, LlamaIndex's and LiteLLM's own packages."""

import json

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


@pytest.fixture(scope="module")
def url():
    """A gateway before a mock that is sure of its answer."""
    mock, settings = MockModel(DistributionAnswers({QUESTION: {"43": 1.0}})), Settings.of(answer="number")
    with running(mock) as upstream, gateway_running(build_gateway(upstream, settings=settings)) as address:
        yield f"{address}/v1"


def openai_text(url, stream):
    client = openai.OpenAI(base_url=url, api_key="none")
    reply = client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=stream)
    if not stream:
        return reply.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in reply if chunk.choices)


def langchain_text(url, stream):
    client = langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL)
    return "".join(part.content for part in client.stream(QUESTION)) if stream else client.invoke(QUESTION).content


def llama_index_text(url, stream):
    client = OpenAILike(api_base=url, api_key="none", model=MODEL, is_chat_model=True)
    messages = [ChatMessage(role="user", content=QUESTION)]
    if stream:
        return "".join(part.delta or "" for part in client.stream_chat(messages))
    return client.chat(messages).message.content


def litellm_text(url, stream):
    reply = litellm.completion(f"openai/{MODEL}", MESSAGES, api_base=url, api_key="none", stream=stream)
    if not stream:
        return reply.choices[0].message.content
    return "".join(chunk.choices[0].delta.content or "" for chunk in reply)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "text", [openai_text, langchain_text, llama_index_text, litellm_text], ids=lambda f: f.__name__
)
def test_a_client_gets_the_answer_of_the_vote(url, text, stream):
    assert "43" in text(url, stream)


def test_a_client_gets_the_call_of_a_tool(url):
    """Of LiteLLM that would need its proxy's packages, too: 1.106.2 imports them where a request has tools."""
    fields = {"model": MODEL, "messages": MESSAGES, "tools": [TOOL]}
    client = openai.OpenAI(base_url=url, api_key="none")
    (call,) = client.chat.completions.create(**fields).choices[0].message.tool_calls
    assert json.loads(call.function.arguments)["answer"] == "43"
    chat = langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL)
    assert chat.bind_tools([TOOL]).invoke(QUESTION).tool_calls[0]["args"]["answer"] == "43"


def test_a_client_may_ask_for_a_schema(url):
    client = openai.OpenAI(base_url=url, api_key="none")
    reply = client.chat.completions.create(model=MODEL, messages=MESSAGES, response_format=FORMAT)
    chat = langchain_openai.ChatOpenAI(base_url=url, api_key="none", model=MODEL)
    for text in (reply.choices[0].message.content, chat.bind(response_format=FORMAT).invoke(QUESTION).content):
        assert "43" in text
