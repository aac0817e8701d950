"""lm-evaluation-harness pays for the repeats that can change a vote: a model ``pets`` over any of its models.

A task with ``repeats: 16`` whose filter ends in ``majority_vote`` asks every question 16 times. This model asks the
inner one for as many as the budget pays for, in a few batches, each where it changes votes, and fills the rest with
copies of a trace of the leading answer: the task's own filter then gives the vote over the traces that were sampled. A
copy begins (or ends) with :data:`NOT_SAMPLED`, by which `pets pools` leaves it out.

    python -m pets.integrations.lm_eval run --model pets --tasks maj16 --model_args \\
        inner=local-chat-completions,budget=5x,model=my-model,base_url=http://localhost:8000/v1/chat/completions

In Python, import this module and give ``lm_eval.simple_evaluate`` the model's name.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from pets import Allocator, Amount, Budget, InputError, Launch, PetsError, Policy, Question, Trace, make_policy

try:
    import lm_eval.models  # noqa: F401 (or lm-eval takes the first registered model for all there are)
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api.filter import Filter
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.registry import get_filter, get_model, register_model
    from lm_eval.api.task import Task
    from lm_eval.utils import simple_parse_args_string
except ModuleNotFoundError:
    raise InputError('lm_eval is not installed. Try: pip install "pets-llm[lm-eval]"') from None

LOGGER = logging.getLogger("lm_eval.pets")
NOT_SAMPLED = "[pets: not sampled]"  # no letter stands alone and no digit in it: filters look for answers like these
VOTE, FIRST = "majority_vote", "take_first"
POLICY = "okg:waves=8"

Generate = Callable[[Sequence[Instance]], list[str]]


@register_model("pets")
class BudgetedModel(LM):  # type: ignore[misc]
    """The model ``pets``: any other, its ``inner``, which generates as far as the ``budget`` pays for.

    ``budget`` is "5x" (generations per document of each task, on average) or a number of them per task; ``policy`` is
    one that asks in waves, such as ``okg:waves=8``. Every other argument is the inner model's. A task without repeats
    is asked as ever, and is not counted.
    """

    @classmethod
    def create_from_arg_string(cls, arg_string: str, additional_config: Mapping[str, Any] | None = None) -> LM:
        """The inner model with a budget, from ``inner=NAME,budget=5x,...``."""
        return cls.create_from_arg_obj(simple_parse_args_string(arg_string), additional_config)

    @classmethod
    def create_from_arg_obj(cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None) -> LM:
        """The same from a mapping."""
        arguments = dict(arg_dict)
        try:
            inner = get_model(str(arguments.pop("inner")))
            amount = Amount.parse(str(arguments.pop("budget")))
        except KeyError as missing:
            raise InputError(f"the model pets needs {missing}: --model_args inner=vllm,budget=5x,...") from None
        amount.traces(0)  # or refuses tokens and money
        policy = make_policy(str(arguments.pop("policy", POLICY)))
        if not policy.waves:
            raise InputError(f"lm-eval asks for whole batches; the policy needs waves, such as {POLICY}.")
        kind = type(f"Budgeted{inner.__name__}", (_Voting, inner), {"amount": amount, "policy": policy})
        model: LM = kind.create_from_arg_obj(arguments, additional_config)  # type: ignore[attr-defined]
        return model


class _Voting:
    """What a budget changes of a model's class."""

    amount: ClassVar[Amount]
    policy: ClassVar[Policy]

    def generate_until(self, requests: Sequence[Instance], *args: Any, **kwargs: Any) -> list[str]:
        """A text for each request: of clones some are sampled, the rest are copies for the vote."""

        def generate(batch: Sequence[Instance]) -> list[str]:
            texts: list[str] = super(_Voting, self).generate_until(batch, *args, **kwargs)  # type: ignore[misc]
            return texts

        places: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(id(request), []).append(place)
        tasks: dict[str, list[_Document]] = {}
        for clones in places.values():
            document = _Document(requests[clones[0]], clones)
            tasks.setdefault(document.request.task_name if len(clones) > 1 else "", []).append(document)
        once = tasks.pop("", [])
        votes = [_TaskVotes(name, documents, self.amount) for name, documents in tasks.items()]  # or refuses them
        for document, text in zip(once, generate([document.request for document in once]) if once else [], strict=True):
            document.texts.append(text)
        for vote in votes:
            vote.run(generate, self.policy)
        responses = {
            place: text
            for documents in (once, *tasks.values())
            for document in documents
            for place, text in zip(document.clones, document.texts, strict=True)
        }
        self._spent = getattr(self, "_spent", {}) | {vote.name: vote.summary for vote in votes}
        return [responses[place] for place in range(len(requests))]

    def get_model_info(self) -> dict[str, Any]:
        """What the inner model says of itself, and what was sampled of each task: part of lm-eval's results."""
        inner: dict[str, Any] = getattr(super(), "get_model_info", dict)()
        return inner | {"pets": getattr(self, "_spent", {})}


@dataclass(slots=True)
class _Document:
    """A request with the places of its clones, and the texts and answers of those that were sampled."""

    request: Instance
    clones: list[int]
    texts: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    copies: dict[str, str] = field(default_factory=dict)  # of the first trace with each answer


class _TaskVotes:
    """The documents of one task, and how its filter reads and counts their texts."""

    def __init__(self, name: str, documents: list[_Document], amount: Amount) -> None:
        self.name, self.documents, self.total = name, documents, amount.traces(len(documents))
        self.summary: dict[str, float] = {}
        self._steps = _steps(name)
        if self.total < len(documents):
            raise InputError(f"{self.total} generations do not pay for one of each of {len(documents)} documents: 1x.")

    def run(self, generate: Generate, policy: Policy) -> None:
        """Sample wave after wave, then fill up."""
        documents = dict(enumerate(self.documents))
        cap = max(len(document.clones) for document in self.documents)
        questions = [Question(str(number)) for number in documents]
        allocator = Allocator(policy, Budget(self.total, cap=cap), questions)
        while launches := allocator.ask(cap * len(documents)):
            texts = generate([documents[int(launch.question)].request for launch in launches])
            for launch, text in zip(launches, texts, strict=True):
                allocator.tell(self._read(documents[int(launch.question)], launch, text))
        for number, document in documents.items():
            answer = allocator.verdict(str(number)).answer
            assert answer is not None  # the first wave has one of each
            document.texts += [document.copies[answer]] * (len(document.clones) - len(document.texts))
            if Counter(self._answers(document, document.texts)).most_common(1)[0][0] != answer:
                raise InputError(f"{self.name}: its filter reads a text otherwise beside others; pets cannot fill up.")
        clones = sum(len(document.clones) for document in self.documents)
        self.summary = {"sampled": allocator.budget.spent, "clones": clones}
        self.summary["expected_consistency"] = allocator.expected_consistency()[0]
        LOGGER.info("%s: %d of %d generations were sampled", self.name, allocator.budget.spent, clones)

    def _read(self, document: _Document, launch: Launch, text: str) -> Trace:
        """The trace of a text, and the copy of it that would fill up."""
        (answer,) = self._answers(document, [text])
        document.texts.append(text)
        if answer not in document.copies:
            copies = (f"{NOT_SAMPLED}\n{text}", f"{text}\n{NOT_SAMPLED}")
            copy = next((copy for copy in copies if self._answers(document, [copy]) == [answer]), None)
            if copy is None:
                raise InputError(f"{self.name}: its filter reads no answer from a text that is marked as not sampled.")
            document.copies[answer] = copy
        return Trace(launch.question, launch.number, answer)

    def _answers(self, document: _Document, texts: list[str]) -> list[str]:
        """What the task's filter counts as the votes of these texts; a text that it cannot read votes, too."""
        responses: Any = [texts]
        for step in self._steps:
            responses = step.apply(responses, [document.request.doc])
        (answers,) = responses
        return list(map(str, answers))


def _steps(name: str) -> list[Filter]:
    """The steps of a task's filter before its vote; refused where another filter would see copies."""
    task = _tasks.get(name)
    if task is None:
        raise InputError(f"the task {name} was built before pets.integrations.lm_eval was imported; import it first.")
    pipelines = [pipeline["filter"] for pipeline in task.config.filter_list or [{"filter": [{"function": FIRST}]}]]
    names = [[str(step["function"]) for step in pipeline] for pipeline in pipelines]
    place = names[0].index(VOTE) if VOTE in names[0] else 0
    before, after = names[0][:place], names[0][place + 1 :]
    if len(pipelines) > 1 or not before or after not in ([], [FIRST]) or {FIRST, f"{FIRST}_k"} & set(before):
        words = "; ".join(map(" -> ".join, names))
        raise InputError(
            f"the task {name} repeats and its filters are ({words}): pets fills up for one filter that reads answers "
            f"and ends in {VOTE}."
        )
    steps = [dict(step) for step in pipelines[0][:place]]
    return [get_filter(step.pop("function"))(**step) for step in steps]


_tasks: WeakValueDictionary[str, Task] = WeakValueDictionary()
"""Tasks whose requests were built, by name: lm-eval hands a model requests and no task, and the vote is the task's."""


def _noted(build: Callable[..., None]) -> Callable[..., None]:
    @wraps(build)
    def build_all_requests(task: Task, *args: Any, **kwargs: Any) -> None:
        _tasks[task.config.task] = task
        build(task, *args, **kwargs)

    return build_all_requests


Task.build_all_requests = _noted(Task.build_all_requests)


def main() -> None:
    """lm-eval's command line with the model ``pets``; a mistake is one line and exit code 2."""
    try:
        cli_evaluate()
    except PetsError as error:
        LOGGER.error("%s", error)
        sys.exit(2)


if __name__ == "__main__":
    main()
