"""Any model that vLLM runs, its engine in this process: for Ray actors, which bring the graphics cards."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Self

from pets.confidence import Meter
from pets.errors import LocalModelError, RefusedError
from pets.openai.response import ALTERNATIVE_TOKENS
from pets.prompts import Completion, Prompt, Sampling, TokenAlternatives, text_bytes
from pets.samplers.base import Sampler

FIXED_SETTINGS = {"logprobs_mode": "raw_logprobs", "max_logprobs": 20, "disable_log_stats": True}
"""The likeliest tokens are as the model gives them, before temperature and cuts: what confidence means."""
OWN_SETTINGS = {"model", "tensor_parallel_size", "max_num_seqs", "max_model_len", *FIXED_SETTINGS}
"""Settings of vLLM's engine that are said otherwise, or are decided here."""
INSTALL = "pip install vllm (https://docs.vllm.ai says which build fits the machine)"


class VllmSampler(Sampler):
    """Traces from vLLM's asynchronous engine; ``gpus`` of them hold the model together (tensor parallelism).

    ``slots`` traces are decoded together, each of at most ``context`` tokens with its prompt; vLLM chooses what is not
    named, and ``settings`` are more of its engine's own, none of :data:`OWN_SETTINGS`. Prompts of traces that begin
    alike are read once (prefix caching). A seed gives the same trace but for rounding, which depends on what is decoded
    beside it.
    """

    def __init__(
        self,
        model: str,
        *,
        slots: int | None = None,
        context: int | None = None,
        gpus: int = 0,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        if find_spec("vllm") is None:
            raise LocalModelError(f'"{model}" needs vLLM, which is not installed where the actor runs: {INSTALL}.')
        self.source = model
        own = {"model": model, "tensor_parallel_size": max(1, gpus), "max_num_seqs": slots, "max_model_len": context}
        self._settings: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
        self._settings |= settings
        self._engine: Any = None

    async def __aenter__(self) -> Self:
        from vllm import AsyncEngineArgs, AsyncLLMEngine

        try:
            self._engine = AsyncLLMEngine.from_engine_args(AsyncEngineArgs(**self._settings, **FIXED_SETTINGS))
            tokenizer = self._engine.get_tokenizer()
            self._tokenizer = await tokenizer if asyncio.iscoroutine(tokenizer) else tokenizer  # older engines' is one
        except (OSError, RuntimeError, TypeError, ValueError) as error:  # TypeError: a setting that it does not know
            words = str(error).strip() or type(error).__name__
            raise LocalModelError(f'vLLM cannot run "{self.source}": {words.splitlines()[0]}') from None
        return self

    async def max_model_len(self) -> int:
        return int(self._engine.model_config.max_model_len)

    async def sample(self, prompt: Prompt, n: int, seed: int, sampling: Sampling) -> list[Completion]:
        """As :meth:`Sampler.sample`: a request for each trace, so that each has the seed that is its own."""
        tokens = self._tokens(prompt, sampling)
        return list(await asyncio.gather(*(self._trace(tokens, seed + index, sampling) for index in range(n))))

    async def close(self) -> None:
        """End the engine and its processes."""
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None

    def _tokens(self, prompt: Prompt, sampling: Sampling) -> list[int]:
        """The prompt as the model reads it, its chat template applied."""
        names = [name for name in sampling.extra_body if name != "chat_template_kwargs"]
        if sampling.reasoning_effort is not None:
            names.append("reasoning_effort")
        if names:
            raise RefusedError(f"vLLM's engine takes chat_template_kwargs alone; leave out {', '.join(names)}.")
        template = sampling.extra_body.get("chat_template_kwargs", {})
        if isinstance(prompt.content, str):
            return list(self._tokenizer.encode(prompt.content))
        messages = [{"role": message.role, "content": message.content} for message in prompt.content]
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **template)
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    async def _trace(self, tokens: Sequence[int], seed: int, sampling: Sampling) -> Completion:
        from vllm import SamplingParams
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        room = int(self._engine.model_config.max_model_len) - len(tokens)
        params = SamplingParams(
            seed=seed,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            stop=list(sampling.stop),
            max_tokens=sampling.max_tokens or max(1, room),
            logprobs=sampling.top_logprobs,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        try:
            replies = self._engine.generate({"prompt_token_ids": list(tokens)}, params, uuid.uuid4().hex)
            outputs = [output async for output in replies]
        except EngineDeadError as error:
            raise LocalModelError(f"vLLM's engine has died: {error}") from None
        except (ValueError, VLLMClientError) as error:  # a prompt that is too long, a value that it does not take
            raise RefusedError(f"vLLM refuses the request: {error}") from None
        if not outputs or not outputs[-1].finished:
            raise LocalModelError("vLLM's engine ended a request without an answer.")
        return _completion(outputs[-1].outputs[0], len(tokens), sampling)


def _completion(output: Any, prompt_tokens: int, sampling: Sampling) -> Completion:
    """A finished trace; of its log-probabilities the confidence stays, and the first tokens' alternatives."""
    confidence, alternatives = None, []
    if sampling.top_logprobs and output.logprobs:
        meter = Meter(sampling.window, sampling.top_logprobs)
        for index, (token, others) in enumerate(zip(output.token_ids, output.logprobs, strict=False)):
            meter.add([other.logprob for other in others.values()])
            if index < ALTERNATIVE_TOKENS:
                texts = {id: other.decoded_token or "" for id, other in others.items()}
                values = {texts[id]: other.logprob for id, other in others.items()}
                alternatives.append(TokenAlternatives(texts.get(token, ""), values))
        confidence = meter.result()
    return Completion(
        output.text,
        str(output.finish_reason),
        len(output.token_ids),
        prompt_tokens,
        confidence,
        size=text_bytes(output.text),
        alternatives=tuple(alternatives),
    )
