"""Asks a model whether a new answer is one that its question has already, on the account of the trace that gave it.

What was held for the trace covers the request (:func:`judge_tokens`), its tokens are the trace's, and the trace is
written down under the class that it joined: a run that goes on pays for no judgement twice.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pets.answers.base import AnswerType
from pets.answers.judge import MAX_PROMPT_TOKENS, Judge
from pets.engine.fetch import Fetcher, fault_name, may_have_sampled
from pets.engine.question import OpenQuestion, cached_answer_type
from pets.errors import SamplerError
from pets.questions import Problem
from pets.samplers import Completion, Prompt

REPLY_TIMEOUT_S = 60.0
FAILED = "error"  # how a reply that never came has finished


def judge_of(problems: Iterable[Problem], override: str | AnswerType | None) -> Judge | None:
    """The judge that the run names, or one of its questions."""
    kinds = {problem.answer_type for problem in problems} if override is None else {override}
    types = (cached_answer_type(kind) if isinstance(kind, str) else kind for kind in kinds)
    return next((answer_type for answer_type in types if isinstance(answer_type, Judge)), None)


def judge_tokens(judge: Judge | None) -> tuple[int, int]:
    """The most tokens that judging one trace takes: of the prompt, and of the reply."""
    return (0, 0) if judge is None else (MAX_PROMPT_TOKENS, judge.max_tokens)


class Judging:
    """Judges the answers of questions, one after the other of each.

    ``fetcher`` leads to the model that is asked; what goes wrong is counted among the ``faults`` of a run.
    """

    def __init__(self, fetcher: Fetcher, faults: Counter[str]) -> None:
        self._fetcher, self.faults = fetcher, faults

    async def join(
        self, question: OpenQuestion, completions: list[Completion], forms: Sequence[str | None]
    ) -> list[str | None]:
        """The name of each trace's class; the traces are put at what they cost with their judgements.

        Broken off, the one whose judgement is out is at the most that this may cost.
        """
        names: list[str | None] = []
        async with question.reading:
            for index, form in enumerate(forms):
                name = None if form is None else question.class_of(form)
                if form is not None and name is None:
                    name = await self._judged(question, completions, index, form)
                    question.put_into(form, name)
                names.append(name)
        return names

    async def _judged(self, question: OpenQuestion, completions: list[Completion], index: int, form: str) -> str:
        judge, known = question.answer_type, question.class_names()
        assert isinstance(judge, Judge)
        content = question.problem.prompt.content
        text = content if isinstance(content, str) else content[-1].content
        request = judge.request(text, form, known)
        if request is None:
            return form
        prompt, numbered = request
        completion = completions[index]
        completions[index] = _with_reply(completion, _dearest(judge, prompt))
        reply = await self._ask(judge, prompt)
        completions[index] = _with_reply(completion, reply)
        number = judge.verdict(reply.text, len(numbered))
        if number is None and reply.finish != FAILED:
            self.faults["judge: no number"] += 1
        return numbered[number - 1] if number else form

    async def _ask(self, judge: Judge, prompt: Prompt) -> Completion:
        """The reply; an empty one where there is none, with all the tokens that may have been used."""
        most = _dearest(judge, prompt)
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_S):
                return await self._fetcher.ask(prompt, judge.sampling)
        except TimeoutError:
            self.faults["judge: late"] += 1
            return most
        except SamplerError as error:
            self.faults[f"judge: {fault_name(error)}"] += 1
            return most if may_have_sampled(error) else Completion("", FAILED, 0, 0)


def _dearest(judge: Judge, prompt: Prompt) -> Completion:
    """A reply that never came, with all the tokens that may have been used."""
    return Completion("", FAILED, judge.max_tokens, prompt.max_tokens)


def _with_reply(completion: Completion, reply: Completion) -> Completion:
    """A trace at what it costs with its judgement."""
    return replace(
        completion,
        tokens=(completion.tokens or 0) + (reply.tokens or 0),
        prompt_tokens=(completion.prompt_tokens or 0) + (reply.prompt_tokens or 0),
        cached_tokens=completion.cached_tokens + reply.cached_tokens,
    )
