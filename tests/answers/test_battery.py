"""The answer types against outputs as models and people write them, and pairs that are one answer or two.

The battery is not for tuning: whoever works on a reader looks at the kinds that fail, not at the items.
``pytest tests/answers/test_battery.py -s`` prints a table by type and kind. ``auto.jsonl`` is for ``auto``, which
chooses by the question and one reply; a third of it is ``held`` back: nothing was tuned on that.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pets.answers.base import AnswerType
from pets.engine.question import answer_type_of, chosen_for
from pets.prompts import Prompt
from pets.questions import Problem
from pets.registry import make_answer_type

BATTERY = Path(__file__).parent / "battery"
TYPES = ("choice", "json", "math", "number", "text", "yesno")
LARGEST_WRONG_SHARE = 0.01
LARGEST_MISSED_SHARE = 0.05

Item = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one item: right, wrong, missed, or declined where a cautious reader may."""

    item: Item
    word: str

    @property
    def row(self) -> tuple[str, str]:
        return self.item["type"], self.item["kind"]


def items(name: str) -> list[Item]:
    return [json.loads(line) for line in (BATTERY / name).read_text("utf-8").splitlines()]


@cache
def answer_type(name: str) -> AnswerType:
    return make_answer_type(name)


def bare_form(reader: AnswerType, answer: str) -> str | None:
    """The form of an answer that stands alone."""
    form = reader.canonical(answer)
    return form if form is not None else reader.extract(answer)


def is_one(reader: AnswerType, first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return False
    merged = reader.merge([first, second])
    return merged[first] == merged[second]


def judge_output(item: Item) -> Verdict:
    """Wrong is any other answer than a person's; missed is none where a person sees one."""
    reader, expect = answer_type(item["type"]), item["expect"]
    form = reader.extract(item["text"])
    if form is None:
        nothing = "declined" if item["accept_none"] else "missed"
        return Verdict(item, "right" if expect is None else nothing)
    is_right = expect is not None and is_one(reader, form, bare_form(reader, expect))
    return Verdict(item, "right" if is_right else "wrong")


def judge_pair(item: Item) -> Verdict:
    """Both as recorded answers and as outputs: two answers may merge in neither reading, one has to in either."""
    reader = answer_type(item["type"])
    readings: tuple[Callable[[str], str | None], ...] = (reader.canonical, reader.extract)
    merged = any(is_one(reader, read(item["a"]), read(item["b"])) for read in readings)
    if merged == item["same"]:
        return Verdict(item, "right")
    if merged:
        return Verdict(item, "wrong")
    return Verdict(item, "declined" if item["optional"] else "missed")


def table(verdicts: Iterable[Verdict]) -> str:
    """The verdicts counted, a line per type and one per kind below it."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for verdict in verdicts:
        for row in ((verdict.row[0], ""), verdict.row):
            counts.setdefault(row, Counter())[verdict.word] += 1
    words = ("right", "declined", "missed", "wrong")
    lines = [f"{'type':8}{'kind':28}{'items':>6}" + "".join(f"{word:>10}" for word in words)]
    for (name, kind), count in sorted(counts.items()):
        lines.append(f"{name:8}{kind:28}{count.total():6}" + "".join(f"{count[word]:10}" for word in words))
    return "\n".join(lines)


def failures(verdicts: Iterable[Verdict], word: str) -> str:
    kinds = Counter("/".join(verdict.row) for verdict in verdicts if verdict.word == word)
    return f"{word}: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())


def share(verdicts: list[Verdict], word: str, among: int) -> float:
    return sum(verdict.word == word for verdict in verdicts) / among


@pytest.mark.parametrize("name", TYPES)
def test_every_type_of_the_battery_is_registered(name: str) -> None:
    assert isinstance(answer_type(name), AnswerType)


def test_outputs_are_read_as_a_person_reads_them() -> None:
    outputs = items("outputs.jsonl")
    assert len(outputs) >= 300
    assert {item["type"] for item in outputs} == set(TYPES)
    verdicts = [judge_output(item) for item in outputs]
    print("\n" + table(verdicts))  # noqa: T201 (pytest -s shows it)
    assert share(verdicts, "wrong", len(outputs)) <= LARGEST_WRONG_SHARE, failures(verdicts, "wrong")
    assert share(verdicts, "missed", len(outputs)) <= LARGEST_MISSED_SHARE, failures(verdicts, "missed")


def test_pairs_merge_when_they_are_one_answer_and_never_when_they_are_two() -> None:
    pairs = items("pairs.jsonl")
    assert len(pairs) >= 200
    verdicts = [judge_pair(item) for item in pairs]
    print("\n" + table(verdicts))  # noqa: T201 (pytest -s shows it)
    assert not share(verdicts, "wrong", len(pairs)), failures(verdicts, "wrong")
    mandatory = sum(item["same"] and not item["optional"] for item in pairs)
    assert share(verdicts, "missed", mandatory) <= LARGEST_MISSED_SHARE, failures(verdicts, "missed")


def chosen_type(question: str, replies: Iterable[str]) -> AnswerType:
    return answer_type_of(chosen_for(Problem("q", Prompt.question(question), "auto"), replies))


def judge_reply(item: Item) -> Verdict:
    """As :func:`judge_output`, by the type that ``auto`` chooses for the question from this reply."""
    reader, expect = chosen_type(item["question"], [item["reply"]]), item["answer"]
    form, item = reader.extract(item["reply"]), item | {"type": "held" if item["held"] else "auto"}
    if form is None:
        return Verdict(item, "right" if expect is None else "missed")
    is_right = expect is not None and is_one(reader, form, bare_form(reader, expect))
    return Verdict(item, "right" if is_right else "wrong")


@pytest.mark.parametrize("held", [False, True])
def test_auto_reads_as_a_person_does(held: bool) -> None:
    verdicts = [judge_reply(item) for item in items("auto.jsonl") if item["held"] is held]
    assert len(verdicts) >= 90
    print("\n" + table(verdicts))  # noqa: T201 (pytest -s shows it)
    wrong = share(verdicts, "wrong", len(verdicts)) + share(verdicts, "missed", len(verdicts))
    assert wrong <= LARGEST_MISSED_SHARE, f"{failures(verdicts, 'wrong')}; {failures(verdicts, 'missed')}"


def test_auto_merges_no_two_answers_whichever_reply_came_first() -> None:
    pairs = items("auto_pairs.jsonl")
    assert len(pairs) >= 100
    wrong = []
    for item in pairs:
        firsts = ([item["a"]], [item["b"]], [item["a"], item["b"]])
        readers = [chosen_type(item["question"], replies) for replies in firsts]
        merged = [is_one(reader, reader.extract(item["a"]), reader.extract(item["b"])) for reader in readers]
        if (not all(merged)) if item["same"] else any(merged):
            wrong.append((item["a"], item["b"]))
    assert wrong == []
