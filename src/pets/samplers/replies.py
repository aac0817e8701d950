"""What an OpenAI-compatible server answers: whole bodies and streams become completions.

Both forms of log-probabilities are read wherever they come: ``content[].top_logprobs`` (chat, and llama.cpp
everywhere) and ``top_logprobs`` as one mapping a token (completions). Where a server parts a model's thoughts from
its answer (``reasoning``, or ``reasoning_content`` of older ones, beside ``content``), the text is the answer; a trace
that has nothing but thoughts is its thoughts, as vLLM sends the answers of a model that did not think at all.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from pets.confidence import KINDS, Confidence, Meter
from pets.errors import RefusedError, ReplyError, SamplerError
from pets.samplers.base import Completion, Sampling

__all__ = ["CUT_OFF", "Choice", "Reply", "counted_tokens", "may_pass", "message_of"]

CHARACTERS = 4  # a token, about
MOST_TOKENS = 1 << 53  # that a server may claim: what JSON's numbers hold
CUT_OFF = {"abort", "error"}  # finish reasons of traces that the server itself gave up, half-way


class Choice:
    """One trace while it comes in."""

    __slots__ = ("characters", "finish", "ids", "meter", "summary", "text", "thoughts", "tokens", "usage")

    def __init__(self, sampling: Sampling) -> None:
        self.text: list[str] = []
        self.thoughts: list[str] = []  # where the server sends them apart
        self.characters = 0  # of both
        self.finish: str | None = None
        self.tokens = 0  # counted where log-probabilities came
        self.ids = 0  # counted where token ids came
        self.usage: int | None = None  # what a stream says of this choice alone
        self.meter = Meter(sampling.window, sampling.top_logprobs) if sampling.top_logprobs else None
        self.summary: dict[str, Any] | None = None  # confidences that the server has worked out itself

    def add(self, part: dict[str, Any]) -> None:
        """A whole choice or a chunk of one."""
        said = part.get("message") or part.get("delta") or {}
        content = part["text"] if part.get("text") is not None else said.get("content")
        if content:
            self._says(content, self.text)
        if thoughts := said.get("reasoning") or said.get("reasoning_content"):
            self._says(thoughts, self.thoughts)
        if part.get("finish_reason") is not None:
            self.finish = str(part["finish_reason"])
            if not any(map(str.strip, self.text)):
                self.text = self.thoughts
        self.ids += len(part.get("token_ids") or ())
        logprobs = part.get("logprobs") or {}
        self.summary = logprobs.get("confidence_summary") or self.summary
        for given in tops(logprobs):
            self.tokens += 1
            if given and self.meter is not None:
                self.meter.add(given)
            elif not given:
                self.meter = None  # a confidence of some of the tokens would be none

    def _says(self, words: object, where: list[str]) -> None:
        if not isinstance(words, str):
            raise TypeError(f"a text is {shown(str(words))}")
        where.append(words)
        self.characters += len(words)

    def confidence(self, tokens: int | None) -> Confidence | None:
        """The server's own summary where it sent one, else what its log-probabilities come to."""
        if self.summary is not None:
            return summarized(self.summary, tokens or 0)
        return self.meter.result() if self.meter else None


def summarized(summary: dict[str, Any], tokens: int) -> Confidence:
    """A server's ``confidence_summary``, by the paper's names (``tail_2048_mean_conf``, ...) or ours.

    One without the lowest group has the bottom 10 %'s in its place, which is never below it.

    >>> summarized({"mean_confidence": 9.0, "tail_2048_mean_conf": 8.0, "bottom_0.1_sliding_2048_mean_conf": 5.0}, 70)
    Confidence(mean=9.0, tail=8.0, lowest=5.0, bottom=5.0, tokens=70)
    """
    found = {kind: float(value) for name, value in summary.items() for kind in KINDS if name.startswith(kind)}
    if missing := {"mean", "tail", "bottom"} - set(found):
        raise KeyError(f"confidence_summary has no {sorted(missing)[0]}")
    if not all(0.0 <= value < math.inf for value in found.values()):
        raise ValueError(f"confidence_summary is {summary}")
    return Confidence(found["mean"], found["tail"], found.get("lowest", found["bottom"]), found["bottom"], tokens)


def counted_tokens(usage: dict[str, Any], name: str) -> int | None:
    """What a usage says; a number that no trace can have taken raises ``TypeError``.

    >>> counted_tokens({"completion_tokens": 5}, "completion_tokens")
    5
    """
    found = usage.get(name)
    if found is None or (isinstance(found, int) and 0 <= found <= MOST_TOKENS):
        return found
    raise TypeError(f"{name} is {shown(repr(found))}")


def tops(logprobs: dict[str, Any]) -> Iterator[list[float]]:
    """For each token the log-probabilities at its place; empty where the server left them out."""
    if logprobs.get("content") is not None:
        for token in logprobs["content"]:
            yield [one["logprob"] for one in token.get("top_logprobs") or ()]
    else:
        given = logprobs.get("top_logprobs") or [None] * len(logprobs.get("tokens") or ())
        for mapping in given:
            yield list(mapping.values()) if mapping else []


class Reply:
    """Collects the answer to one request for ``n`` traces.

    >>> reply = Reply(2, Sampling(max_tokens=5))
    >>> reply.read('{"choices": [{"index": 1, "text": " 4", "finish_reason": "stop"}]}')
    >>> [one] = reply.completions()
    >>> one.text, one.finish, one.tokens
    (' 4', 'stop', None)
    """

    def __init__(self, n: int, sampling: Sampling) -> None:
        self._n, self._sampling = n, sampling
        self._choices: dict[int, Choice] = {}
        self._usage: dict[str, Any] = {}

    def read(self, text: str | bytes) -> None:
        """A whole body, or the data of one event of a stream."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ReplyError(f"the server's reply is not JSON: {shown(text)}") from error
        try:
            self._take(data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ReplyError(f"the server's reply has not OpenAI's form ({error}): {shown(text)}") from error

    def _take(self, data: dict[str, Any]) -> None:
        if "choices" not in data and ("error" in data or data.get("object") == "error"):
            raise self._broken_off(data)
        choices = data["choices"]
        for position, part in enumerate(choices):
            index = int(part.get("index", position))
            if not 0 <= index < self._n:
                continue  # more than was asked for
            choice = self._choices.setdefault(index, Choice(self._sampling))
            choice.add(part)
            if len(choices) == 1 and part.get("finish_reason") and data.get("usage"):
                choice.usage = data["usage"].get("completion_tokens")
        self._usage = data.get("usage") or self._usage
        for name in ("prompt_tokens", "completion_tokens"):
            counted_tokens(self._usage, name)

    def _broken_off(self, data: dict[str, Any]) -> SamplerError:
        """An error inside a reply whose status was good: vLLM looks at some parameters after it has begun to stream."""
        error = data.get("error") or data
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and 400 <= code < 600 and not may_pass(code) and not self._choices:
            return RefusedError(f"the server says {code}: {message_of(data)}", status=code)
        return ReplyError(f"the server broke off: {message_of(data)}")

    @property
    def usage_of_one(self) -> bool:
        """Whether the usage was shown to count fewer tokens than came: llama.cpp's counts one choice only."""
        total = self._usage.get("completion_tokens")
        return total is not None and total < sum(choice.tokens or choice.ids for choice in self._choices.values())

    def completions(self) -> list[Completion]:
        """The traces, in the order of their seeds."""
        if not self._choices:
            raise ReplyError("the server's reply has no choices; at least one was expected.")
        try:
            return self._finished()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ReplyError(f"the server's reply has not OpenAI's form ({error}).") from error

    def _finished(self) -> list[Completion]:
        prompt_tokens = self._usage.get("prompt_tokens")
        found = []
        for index, choice in sorted(self._choices.items()):
            if choice.finish is None:
                raise ReplyError(f"choice {index} breaks off without a finish_reason; the connection ended early.")
            if choice.finish in CUT_OFF:
                raise ReplyError(f'choice {index} was given up by the server (finish_reason "{choice.finish}").')
            tokens = self._tokens(choice)
            found.append(
                Completion("".join(choice.text), choice.finish, tokens, prompt_tokens, choice.confidence(tokens))
            )
        return found

    def _tokens(self, choice: Choice) -> int | None:
        """Counted; else what the usage says, where it can only mean this choice; else unknown.

        Thoughts that came apart are not in the text, so nobody after us could guess what they took: then it is the
        choice's share of the usage, and no less than its characters make, since some servers count one choice only.
        """
        if counted := choice.tokens or choice.ids:
            return counted
        total: int | None = self._usage.get("completion_tokens")
        if len(self._choices) == 1:
            return total
        choices = self._choices.values()
        if choice.usage is not None or total is None or not any(one.thoughts for one in choices):
            return choice.usage
        share = choice.characters / max(1, sum(one.characters for one in choices))
        return max(1, round(total * share), choice.characters // CHARACTERS)


def may_pass(status: int) -> bool:
    """Whether a status speaks of now, not of the request.

    >>> may_pass(429), may_pass(503), may_pass(400)
    (True, True, False)
    """
    return status in {408, 409, 425, 429} or status >= 500


def message_of(data: object) -> str:
    """The words of an error, or the beginning of what came instead.

    OpenAI's form is ``{"error": {"message"}}``; older vLLM leaves out the outer one, frameworks say ``{"detail"}``.

    >>> message_of({"object": "error", "message": "No."}), message_of({"detail": "Not Found"})
    ('No.', 'Not Found')
    """
    error = (data.get("error") or data.get("detail") or data) if isinstance(data, dict) else data
    words = error.get("message") or error if isinstance(error, dict) else error
    return shown(str(words), 300)


def shown(text: str | bytes, most: int = 200) -> str:
    """A reply's beginning, on one line."""
    words = text if isinstance(text, str) else text.decode("utf-8", "replace")
    line = " ".join(words.split())
    return (line[:most] + " ...") if len(line) > most else line or "(nothing)"
