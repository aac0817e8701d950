"""vLLM's engine as a sampler, over a stand-in with the names of its interface; over a real one: tests/e2e_vllm."""

import asyncio
import re
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace

import pytest

from pets.confidence import measure
from pets.errors import LocalModelError, RefusedError
from pets.samplers import Prompt, Sampling
from pets.samplers.vllm_engine import VllmSampler

REQUESTS = []
ENGINES = []


class ClientError(Exception):
    """The stand-in of VLLMClientError."""


class DeadError(Exception):
    """The stand-in of EngineDeadError."""


class Tokenizer:
    def encode(self, text, add_special_tokens=True):
        return [1] * add_special_tokens + [len(word) for word in text.split()]

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, **more):
        assert not tokenize and add_generation_prompt
        return " ".join(["<s>", *(f"{one['role']} {one['content']}" for one in messages), *map(str, more.items())])


@dataclass
class StandIn:
    """An engine whose trace is its seed, with two tokens and their log-probabilities."""

    settings: object = None
    error: Exception | None = None
    model_config: object = field(default_factory=lambda: SimpleNamespace(max_model_len=100))
    ended: bool = False

    @classmethod
    def from_engine_args(cls, settings):
        ENGINES.append(cls(settings))
        return ENGINES[-1]

    def get_tokenizer(self):
        return Tokenizer()

    async def generate(self, prompt, params, request_id):
        REQUESTS.append((prompt["prompt_token_ids"], params, request_id))
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        tops = [{7: (-0.1, "4"), 8: (-2.5, "5")}, {9: (-0.3, "."), 3: (-1.5, "!")}]
        logprobs = [
            {token: SimpleNamespace(logprob=value, decoded_token=text) for token, (value, text) in top.items()}
            for top in tops
        ]
        output = SimpleNamespace(
            text=f"4. ({params.seed})",
            token_ids=[7, 9],
            logprobs=logprobs if params.logprobs else None,
            finish_reason="stop",
        )
        yield SimpleNamespace(finished=True, outputs=[output])

    def shutdown(self):
        self.ended = True


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    """The modules of vLLM that the sampler imports."""
    names = [
        "vllm",
        "vllm.exceptions",
        "vllm.sampling_params",
        "vllm.v1",
        "vllm.v1.engine",
        "vllm.v1.engine.exceptions",
    ]
    modules = {name: ModuleType(name) for name in names}
    modules["vllm"].__spec__ = SimpleNamespace(name="vllm")
    modules["vllm"].AsyncEngineArgs = modules["vllm"].SamplingParams = SimpleNamespace
    modules["vllm"].AsyncLLMEngine = StandIn
    modules["vllm.sampling_params"].RequestOutputKind = SimpleNamespace(FINAL_ONLY=2)
    modules["vllm.exceptions"].VLLMClientError = ClientError
    modules["vllm.v1.engine.exceptions"].EngineDeadError = DeadError
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    REQUESTS.clear()
    ENGINES.clear()


def sample(prompt, n=1, seed=70, sampling=None, error=None, **settings):
    async def go():
        async with VllmSampler("org/model", **settings) as sampler:
            ENGINES[-1].error = error
            return await sampler.sample(prompt, n, seed, sampling or Sampling())

    return asyncio.run(go())


def test_every_trace_has_a_request_and_a_seed_of_its_own():
    traces = sample(Prompt("2 + 2 ="), n=3)
    assert [trace.text for trace in traces] == ["4. (70)", "4. (71)", "4. (72)"]
    assert [(trace.tokens, trace.prompt_tokens, trace.finish) for trace in traces] == [(2, 5, "stop")] * 3
    assert len({request_id for *_, request_id in REQUESTS}) == 3


def test_sampling_is_sent_as_it_is_and_the_context_bounds_a_trace():
    sampling = Sampling(temperature=0.7, top_p=0.9, top_k=5, min_p=0.1, stop=["\n"], max_tokens=9)
    sample(Prompt("2 + 2 ="), sampling=sampling)
    sample(Prompt("2 + 2 ="))
    asked, bare = (params for _, params, _ in REQUESTS)
    assert (asked.temperature, asked.top_p, asked.top_k, asked.min_p, asked.stop) == (0.7, 0.9, 5, 0.1, ["\n"])
    assert (asked.max_tokens, asked.logprobs, asked.output_kind) == (9, None, 2)
    assert bare.max_tokens == 95


def test_a_setting_that_vllm_does_not_know_is_named(monkeypatch):
    def arguments(*, model, tensor_parallel_size, logprobs_mode, max_logprobs, disable_log_stats):
        return None

    monkeypatch.setattr(sys.modules["vllm"], "AsyncEngineArgs", arguments)
    with pytest.raises(LocalModelError, match=r'^vLLM cannot run "org/model": .*unexpected keyword argument .*dtipe'):
        sample(Prompt("2 + 2 ="), settings={"dtipe": "half"})


def test_a_chat_goes_through_the_template_once():
    more = {"chat_template_kwargs": {"enable_thinking": False}}
    sample(Prompt.chat("2 + 2?", system="Be brief."), sampling=Sampling(extra_body=more))
    words = "<s> system Be brief. user 2 + 2? ('enable_thinking', False)"
    assert REQUESTS[0][0] == [len(word) for word in words.split()]


def test_confidence_is_computed_where_the_log_probabilities_are():
    [trace] = sample(Prompt("2 + 2 ="), sampling=Sampling(top_logprobs=2, window=8))
    assert trace.confidence == measure([[-0.1, -2.5], [-0.3, -1.5]], window=8, top=2)
    assert [(one.token, one.logprobs) for one in trace.alternatives] == [
        ("4", {"4": -0.1, "5": -2.5}),
        (".", {".": -0.3, "!": -1.5}),
    ]
    [plain] = sample(Prompt("2 + 2 ="))
    assert (plain.confidence, plain.alternatives) == (None, ())


def test_the_engine_is_made_as_asked_for_and_ended():
    async def go():
        async with VllmSampler("org/model", slots=8, context=64, gpus=2) as sampler:
            assert await sampler.max_model_len() == 100
            return ENGINES[-1]

    engine = asyncio.run(go())
    assert engine.ended
    settings = vars(engine.settings)
    assert (settings["model"], settings["max_num_seqs"], settings["max_model_len"]) == ("org/model", 8, 64)
    assert (settings["tensor_parallel_size"], settings["logprobs_mode"]) == (2, "raw_logprobs")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ClientError("the prompt is too long"), RefusedError),
        (ValueError("top_k is what?"), RefusedError),
        (DeadError("it died"), LocalModelError),
    ],
)
def test_what_goes_wrong_is_named(error, kind):
    with pytest.raises(kind, match=re.escape(str(error))):
        sample(Prompt("2 + 2 ="), error=error)


def test_fields_of_servers_are_refused():
    with pytest.raises(RefusedError, match="leave out top_a, reasoning_effort"):
        sample(Prompt("?"), sampling=Sampling(extra_body={"top_a": 1}, reasoning_effort="low"))


def test_without_vllm_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr("pets.samplers.vllm_engine.find_spec", lambda name: None)
    with pytest.raises(LocalModelError, match="needs vLLM, which is not installed where the actor runs: pip install"):
        VllmSampler("org/model")
