"""What stands between a user and a run: the server, its key and model, what it honours, and a few live traces."""

import asyncio
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pets.engine.endpoints import STOP_LOOKS_S, STOPS_WITHIN_S
from pets.engine.question import answer_type_of, chosen_for, excerpt_of, prompt_of, reading_of
from pets.engine.spec import RunSpec
from pets.errors import RefusedError, ReplyError, SamplerError, UnreachableError
from pets.openai.models import context_tokens
from pets.prompts import is_cut
from pets.questions import Problem
from pets.registry import spec_of
from pets.samplers import Prompt, Sampler, Written
from pets.samplers.openai import OpenAISampler

PROBE_TOKENS = 256  # of each trace that only shows what the server honours
PROBE_TRACES = 3
TRACE_TOKENS = 8192  # of a live trace, where the user sets no limit
PROBE_QUESTION = Prompt.chat("Think of a number between 1 and 1000, and say why you chose it.")
MODELS_SHOWN = 10
KEY_STATUSES = (401, 403)
TRY_LONGER = (
    f"It writes more than the {TRACE_TOKENS:,} tokens that are tried here; try a larger --max-tokens here first."
)


State = Literal["ok", "note", "fault"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; ``remedy`` says what to change, where something can be."""

    name: str
    state: State
    finding: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class LiveTrace:
    """One trace of a question, and what was read from it."""

    question: str
    answer: str | None
    answer_type: str
    finish: str
    tokens: int | None
    seconds: float
    text: str

    @property
    def is_cut(self) -> bool:
        """Whether it ended at its token limit, or was ended by the server."""
        return is_cut(self.finish)


@dataclass(slots=True)
class Diagnosis:
    """What was found of one server and model."""

    server: str
    model: str
    checks: list[Check] = field(default_factory=list)
    traces: list[LiveTrace] = field(default_factory=list)
    max_model_len: int | None = None
    left_out: list[str] = field(default_factory=list)

    @property
    def faulty(self) -> bool:
        """Whether a run would fail, or answer nothing."""
        return any(check.state == "fault" for check in self.checks)

    def add(self, name: str, state: State, finding: str, remedy: str = "") -> None:
        """Add a check."""
        self.checks.append(Check(name, state, finding, remedy))

    def add_either(self, name: str, fine: bool, finding: str, otherwise: str, remedy: str = "") -> None:
        """Add a check that is ok where it is ``fine``, else a note with a remedy."""
        self.checks.append(Check(name, "ok", finding) if fine else Check(name, "note", otherwise, remedy))


async def diagnose(
    server: str, model: str | None, make: Callable[[str, str], Sampler], problems: Sequence[Problem], spec: RunSpec
) -> Diagnosis:
    """Look at a server from outside in, as far as it goes; ``make`` gives a sampler for an address and a model.

    An empty address is the local model. The ``problems`` are asked live, one trace each.
    """
    diagnosis = Diagnosis(server, model or "")
    sampler = make(server, diagnosis.model)
    if isinstance(sampler, OpenAISampler):
        if not await _look_at_models(diagnosis, sampler, lambda url: make(url, diagnosis.model)):
            return diagnosis
        sampler = make(server, diagnosis.model)
    async with sampler:
        diagnosis.max_model_len = diagnosis.max_model_len or await sampler.max_model_len()
        unknown = "the server does not say how long prompt and trace may be: token and money budgets need --max-tokens"
        length = diagnosis.max_model_len
        diagnosis.add_either("context", length is not None, f"{length or 0:,} tokens of prompt and trace", unknown)
        try:
            await _probe(diagnosis, sampler, problems[0] if problems else None, spec)
            await _cancel(diagnosis, sampler, spec)
            await _ask(diagnosis, sampler, problems, spec)
        except SamplerError as error:
            diagnosis.add("traces", "fault", str(error))
    if isinstance(sampler, OpenAISampler) and (left_out := sampler.left_out):
        diagnosis.left_out = left_out
        diagnosis.add("fields", "note", f"refused, so left out or sent under another name: {', '.join(left_out)}")
    return diagnosis


async def _look_at_models(diagnosis: Diagnosis, sampler: OpenAISampler, make: Callable[[str], Sampler]) -> bool:
    """Reach the server, its list of models and the model; False where it makes no sense to go on."""
    try:
        models = await sampler.models()
    except UnreachableError as error:
        diagnosis.add("reachable", "fault", str(error), "Start the server, or correct --endpoint.")
        return False
    except SamplerError as error:
        diagnosis.add("reachable", "ok", "the server answers")
        return await _explain_no_models(diagnosis, error, make)
    names = [str(model["id"]) for model in models]
    diagnosis.add("reachable", "ok", f"the server answers and lists {len(names)} model{'s' * (len(names) != 1)}")
    diagnosis.add("key", "ok", "accepted, or none is needed")
    if not diagnosis.model and len(names) == 1:
        diagnosis.model = names[0]
    if diagnosis.model not in names:
        close = difflib.get_close_matches(diagnosis.model, names, MODELS_SHOWN, 0.4) or names[:MODELS_SHOWN]
        finding = f"there is no model {diagnosis.model!r}" if diagnosis.model else "no model is named"
        diagnosis.add("model", "fault", finding, f"Give --model with one of: {', '.join(close)}.")
        return False
    diagnosis.add("model", "ok", diagnosis.model)
    diagnosis.max_model_len = next(context_tokens(model) for model in models if model["id"] == diagnosis.model)
    return True


async def _explain_no_models(diagnosis: Diagnosis, error: SamplerError, make: Callable[[str], Sampler]) -> bool:
    """Why there is no list of models: the key, the address, or a server that has none."""
    if error.status in KEY_STATUSES:
        remedy = "Set OPENAI_API_KEY, or name the variable that holds the key with --key-env NAME."
        diagnosis.add("key", "fault", str(error), remedy)
        return False
    url = diagnosis.server.rstrip("/")
    others = {url.partition("/chat/completions")[0], f"{url}/v1", f"{url.removesuffix('/v1')}/v1"} - {url}
    for other in sorted(others):
        sampler = make(other)
        try:
            assert isinstance(sampler, OpenAISampler)
            await sampler.models()
        except SamplerError:
            continue
        diagnosis.add("address", "fault", str(error), f"The server is at --endpoint {other}.")
        return False
    goes_on = isinstance(error, RefusedError | ReplyError) and diagnosis.model != ""
    diagnosis.add("models", "note" if goes_on else "fault", f"the server does not list its models: {error}")
    return goes_on


async def _probe(diagnosis: Diagnosis, sampler: Sampler, problem: Problem | None, spec: RunSpec) -> None:
    """Short traces that show whether the server honours n, log-probabilities, seeds, and tells its usage."""
    prompt = PROBE_QUESTION if problem is None else prompt_of(problem, spec.reading.system)
    limit = min(PROBE_TOKENS, spec.sampling.max_tokens or PROBE_TOKENS)
    sampling = replace(spec.sampling, max_tokens=_fitting(limit, prompt, diagnosis.max_model_len), top_logprobs=5)
    pair = await sampler.sample(prompt, 2, spec.serving.seed, sampling)
    again = await sampler.sample(prompt, 1, spec.serving.seed, sampling)
    remedy = "A larger --concurrency makes up for it." if spec.pacing.in_flight < 128 else ""
    apart = "every trace is a request of its own, and pays for its prompt"
    diagnosis.add_either("n", len(pair) == 2, "several traces come in one request", apart, remedy)
    remedy = "Leave out --confidence." if spec.reading.confidence is not None else ""
    none = "the server gives none: no policy can weigh votes by confidence"
    has_confidence = pair[0].confidence is not None
    diagnosis.add_either("log-probabilities", has_confidence, "they come with every token", none, remedy)
    if sampling.temperature == 0 or (len(pair) == 2 and pair[0].text == pair[1].text):
        diagnosis.add("seeds", "note", "cannot be told: different seeds gave the same trace")
    else:
        another = "the same seed gave another trace: a run cannot be repeated exactly"
        diagnosis.add_either("seeds", pair[0].text == again[0].text, "the same seed gave the same trace", another)
    estimated = "the server tells no tokens: they are estimated from what came"
    diagnosis.add_either("usage", pair[0].prompt_tokens is not None, "tokens are what the server says", estimated)


async def _cancel(diagnosis: Diagnosis, sampler: Sampler, spec: RunSpec) -> None:
    """Cancel a trace that has begun, and look whether the server works on no more requests than before it."""
    before = await sampler.requests_running()
    if before is None:
        unknown, remedy = "the server does not tell whether it stops", "Runs have --hurry 0, unless you say otherwise."
        diagnosis.add_either("cancel", sampler.stops, "it stops at the next token", unknown, remedy)
        return
    limit = _fitting(PROBE_TOKENS, PROBE_QUESTION, diagnosis.max_model_len)
    written, sampling = Written(), replace(spec.sampling, max_tokens=limit)
    trace = asyncio.ensure_future(sampler.sample_streamed(PROBE_QUESTION, spec.serving.seed, sampling, written))
    while not trace.done() and not written.tokens:
        await asyncio.wait([trace], timeout=STOP_LOOKS_S)
    if trace.done():
        await trace
        diagnosis.add("cancel", "ok", "traces are too short to be cancelled")
        return
    trace.cancel()
    for _ in range(round(STOPS_WITHIN_S / STOP_LOOKS_S)):
        await asyncio.wait([trace], timeout=STOP_LOOKS_S)
        if (await sampler.requests_running() or 0) <= before:
            diagnosis.add("cancel", "ok", "the server stops when a request is cancelled")
            return
        await asyncio.sleep(STOP_LOOKS_S)
    finding = f"the server is still at work {STOPS_WITHIN_S:g} s after a request was cancelled"
    diagnosis.add("cancel", "note", finding, "Give --hurry 0: what is cancelled is paid for as a whole.")


async def _ask(diagnosis: Diagnosis, sampler: Sampler, problems: Sequence[Problem], spec: RunSpec) -> None:
    """One trace of each question, all at once."""
    length = diagnosis.max_model_len
    traces = await asyncio.gather(*(_live_trace(sampler, spec.asked(problem), spec, length) for problem in problems))
    diagnosis.traces = traces
    if not traces:
        return
    cut, unread = [t for t in traces if t.is_cut], [t for t in traces if t.answer is None and not t.is_cut]
    if cut:
        limit = max(trace.tokens or 0 for trace in cut)
        finding = f"{len(cut)} of {len(traces)} traces were cut, at up to {limit:,} tokens; a cut trace casts no vote"
        remedy = "Give a larger --max-tokens." if spec.sampling.max_tokens else TRY_LONGER
        diagnosis.add("length", "fault" if 2 * len(cut) > len(traces) else "note", finding, remedy)
    if unread:
        kinds = ", ".join(sorted({trace.answer_type for trace in unread}))
        finding = f"{len(unread)} of {len(traces)} traces hold no answer that is read as {kinds}"
        remedy = "Look at their texts: another --answer type, or a prompt that says how to end, may help."
        diagnosis.add("answers", "fault" if 2 * len(unread) > len(traces) else "note", finding, remedy)
    elif not cut:
        diagnosis.add("answers", "ok", f"an answer was read from each of {len(traces)} traces")


async def _live_trace(sampler: Sampler, problem: Problem, spec: RunSpec, length: int | None) -> LiveTrace:
    prompt = prompt_of(problem, spec.reading.system)
    limit = _fitting(spec.sampling.max_tokens or TRACE_TOKENS, prompt, length)
    clock = asyncio.get_running_loop().time
    started = clock()
    [trace] = await sampler.sample(prompt, 1, spec.serving.seed, replace(spec.sampling, max_tokens=limit))
    answer_type = answer_type_of(chosen_for(problem, [trace.text], spec.reading.answer), spec.reading.answer)
    reading = reading_of(answer_type, trace.text, trace.finish)
    answer = None if reading is None else reading.spelling
    name = spec_of(answer_type) or type(answer_type).__name__
    return LiveTrace(problem.id, answer, name, trace.finish, trace.tokens, clock() - started, excerpt_of(trace.text))


def _fitting(limit: int, prompt: Prompt, length: int | None) -> int | None:
    """The token limit that fits into the context beside the prompt; none where even one token may not."""
    if length is None:
        return limit
    room = length - prompt.max_tokens
    return min(limit, room) if room > 0 else None
