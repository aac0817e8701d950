"""A LiteLLM provider that answers by vote over another model group of the same proxy.

In the proxy's configuration ``model: pets/NAME`` votes over the group NAME, with one budget for all that ask it:

    model_list:
      - model_name: voted
        litellm_params: {model: pets/gpt-oss, input_cost_per_token: 0, output_cost_per_token: 0}
        model_info: {pets: {budget: 8x, answer: number}}
    litellm_settings:
      custom_provider_map: [{provider: pets, custom_handler: pets.integrations.litellm.handler}]

Every trace is a request of the proxy's own router with the key of who asked: LiteLLM logs and charges each, and the
answer itself costs nothing more. Without a proxy, ``litellm.acompletion(model="pets/gpt-4o-mini")`` asks the model.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from itertools import count
from typing import Any

import pets

try:
    import litellm
    from litellm import CustomLLM, ModelResponse
    from litellm.llms.custom_llm import CustomLLMError
    from litellm.types.utils import GenericStreamingChunk, Usage
except ModuleNotFoundError:
    raise pets.InputError('litellm is not installed. Try: pip install "pets-llm[litellm]"') from None

BUDGET = "8x"  # where the model's info says none
REFUSED = ("tools", "functions", "n", "logprobs", "modalities")  # of a request: a vote is over one text for each trace
OWN = ("stream", "stream_options", "max_retries", "seed")  # that traces do not take from the request
BUSY_STATUSES = (429, 503)


class VoteProvider(CustomLLM):  # type: ignore[misc]
    """LiteLLM's provider ``pets``; each model has a :class:`pets.Voter`, which its requests share."""

    def __init__(self) -> None:
        super().__init__()
        self._voters: dict[str, tuple[pets.Voter, _RouterSampler]] = {}
        self._numbers = count()

    async def acompletion(
        self, *, model: str, messages: list[Any], model_response: ModelResponse, **request: Any
    ) -> ModelResponse:
        """The answer as a chat completion; ``pets`` in its message's ``provider_specific_fields`` has the votes."""
        answer, metadata = await self._vote(model, messages, request)
        message = model_response.choices[0].message
        message.content, message.provider_specific_fields = answer.text, {"pets": metadata}
        model_response.choices[0].finish_reason = "stop"
        model_response.usage = _usage(answer)
        model_response._hidden_params |= {"pets": metadata, "response_cost": 0.0}  # its traces were charged
        return model_response

    async def astreaming(self, *, model: str, messages: list[Any], **request: Any) -> AsyncIterator[Any]:
        """The same as one chunk: a vote has no answer before its end."""
        answer, metadata = await self._vote(model, messages, request)
        yield GenericStreamingChunk(
            text=answer.text or "",
            is_finished=True,
            finish_reason="stop",
            index=0,
            tool_use=None,
            usage=_usage(answer).model_dump(),
            provider_specific_fields={"pets": metadata},
        )

    async def _vote(
        self, model: str, messages: list[Any], request: Mapping[str, Any]
    ) -> tuple[pets.Answer, dict[str, Any]]:
        """The vote, and what clients and callbacks are told of it."""
        fields = {name: value for name, value in request["optional_params"].items() if name not in OWN}
        if refused := [name for name in REFUSED if fields.get(name) and (name, fields[name]) != ("n", 1)]:
            raise CustomLLMError(400, f"pets votes over texts; ask {model} itself for {', '.join(refused)}.")
        id = f"request {next(self._numbers)}"
        try:
            voter, sampler = await self._voter(model, request["litellm_params"])
            prompt = pets.Prompt.of_body({"messages": messages, **fields}, sender=id)
            calls = sampler.calls[id] = _Calls(dict(request["litellm_params"].get("metadata") or {}))
            try:
                answer = await voter.ask(pets.Problem(id, prompt, "auto"))
            finally:
                del sampler.calls[id]
        except pets.PetsError as error:
            raise CustomLLMError(_status(error), str(error)) from error
        shown = ("answer", "votes", "certificate", "traces", "no_answer", "error")
        metadata = {name: getattr(answer, name) for name in shown}
        return answer, metadata | {"votes": dict(answer.votes), "cost": calls.cost}

    async def _voter(self, model: str, litellm_params: Mapping[str, Any]) -> tuple[pets.Voter, "_RouterSampler"]:
        """The voter of a deployment. Its settings are the model's info alone, which no client can send."""
        info = (litellm_params.get("metadata") or {}).get("model_info") or {}
        settings = {"budget": BUDGET, "open_questions": 1 << 16, **(info.get("pets") or {})}
        place = f"{info.get('id')} {model} {id(asyncio.get_running_loop())}"
        if place not in self._voters:
            sampler = _RouterSampler(model)
            try:
                self._voters[place] = pets.Voter(sampler=sampler, **settings), sampler
            except pets.PetsError as error:
                raise CustomLLMError(500, f"model_info of pets/{model}: {error}") from error
            await self._voters[place][0].__aenter__()
        return self._voters[place]


class _Calls:
    """What the traces of one request are sent with, and what LiteLLM says that they cost."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self.metadata, self.cost = metadata, 0.0


class _RouterSampler(pets.Sampler):
    """Asks a model group of the proxy, or a model where there is none; ``calls`` are the requests under way, by id."""

    def __init__(self, model: str) -> None:
        self.source = model
        self.calls: dict[str, _Calls] = {}
        self._model = model

    async def sample(self, prompt: pets.Prompt, n: int, seed: int, sampling: pets.Sampling) -> list[pets.Completion]:
        """One request for each trace: few providers take ``n``."""
        outcomes = await asyncio.gather(*(self._complete(prompt) for _ in range(n)), return_exceptions=True)
        completions = [outcome for outcome in outcomes if isinstance(outcome, pets.Completion)]
        if not completions:
            raise next(outcome for outcome in outcomes if isinstance(outcome, BaseException))
        return completions

    async def _complete(self, prompt: pets.Prompt) -> pets.Completion:
        calls, proxy = self.calls[prompt.sender], sys.modules.get("litellm.proxy.proxy_server")
        router = None if proxy is None else proxy.llm_router
        try:
            reply = await (router or litellm).acompletion(
                model=self._model, metadata=dict(calls.metadata), **(prompt.body or {})
            )
        except Exception as error:
            raise _sampler_error(error) from error
        calls.cost += reply._hidden_params.get("response_cost") or 0.0
        choice, usage = reply.choices[0], reply.usage
        text = choice.message.content or ""
        return pets.Completion(text, choice.finish_reason or "stop", usage.completion_tokens, usage.prompt_tokens)


def _sampler_error(error: Exception) -> pets.SamplerError:
    """What a failed request means for a vote."""
    status = getattr(error, "status_code", None)
    if status in BUSY_STATUSES:
        return pets.BusyError(str(error), status=status)
    if isinstance(status, int) and 400 <= status < 500:
        return pets.RefusedError(str(error), status=status)
    return pets.SamplerError(str(error), status=status)


def _status(error: pets.PetsError) -> int:
    """The HTTP status of a vote that came to nothing."""
    if isinstance(error, pets.BudgetError):
        return 429
    if isinstance(error, pets.SamplerError):
        return error.status or (503 if isinstance(error, pets.BusyError) else 502)
    return 400


def _usage(answer: pets.Answer) -> Usage:
    total = answer.prompt_tokens + answer.tokens
    return Usage(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.tokens, total_tokens=total)


handler = VoteProvider()
