"""The base of answer types: how an answer is read from a text, and which answers are the same.

A new answer type defines ``canonical``, on a frozen slotted dataclass whose fields are plain data, and ``extract``
where the final answer stands somewhere special:

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True, slots=True)
... class YesNo(AnswerType):
...     def canonical(self, answer: str) -> str | None:
...         word = answer.strip(" .!*").lower()
...         return word if word in ("yes", "no") else None
>>> YesNo().extract("It has two divisors. The answer is: Yes.")
'yes'
>>> YesNo().labels(["Yes", None, "no", "perhaps", "yes."])
['yes', None, 'no', None, 'yes']
>>> YesNo().gold_form("7 is prime.\\n#### Yes")
'yes'
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import ClassVar, NamedTuple

from pets.answers.final import places

MAX_CACHED_CHARS = 200  # of an answer whose reading is kept: a cache of 1 << 14 stays within about 30 MB
BOX = "\\boxed"  # what MATH's worked solutions have their answer in
AROUND = " \t*_`\"'.,;:"  # an answer, that is no part of it
GSM8K_MARK = "####"  # what GSM8K's worked solutions end with, before the number


class Reading(NamedTuple):
    """The answer of a text: its canonical ``form``, which is compared, and its ``spelling``, which is shown."""

    form: str
    spelling: str


class AnswerType(ABC):
    """Reads answers into canonical forms, and says which forms are one answer.

    Law: ``canonical`` is idempotent and never ``""``; ``extract`` gives the canonical forms of ``read``, of which a
    type writes one at most; ``same`` is symmetric and pure. :func:`pets.testing.check_answer_type` proves it. Texts may
    be hostile: both read them in time linear in their length.
    """

    __slots__ = ()

    merges: ClassVar[bool] = False
    """Whether two different canonical forms can be one answer; true of every type that writes its own ``same``, too."""

    chosen_from_traces: ClassVar[bool] = False
    """Whether it only stands for another type, which is chosen when a run's first traces are there."""

    operator_only: ClassVar[bool] = True
    """Whether a gateway's clients may not choose it. A type that runs no code, pattern or model of the client's, and
    no other program, says False."""

    client_options: ClassVar[frozenset[str]] = frozenset()
    """The options that a gateway's clients may set, where they may choose the type."""

    files_may_name: ClassVar[bool] = True
    """Whether a file of questions may name it; what runs the user's code, or sends answers elsewhere, says False."""

    runs_code: ClassVar[bool] = False
    """Whether reading runs code that the user names."""

    reads_at_once: ClassVar[bool] = False
    """Whether texts of some thousand characters are read in a moment, whatever they say. Others are read outside the
    event loop."""

    reading_seconds: ClassVar[float] = 1.0
    """Processor seconds that reading one text may take. A trace that takes more is not read: it casts no vote, and is
    read again when its run is resumed."""

    asks_model: ClassVar[bool] = False
    """Whether a model says which answers are the same, when they are read."""

    spec_option: ClassVar[str] = ""
    """The option that all of a spec is after the type's name, as it stands: ``regex:PATTERN``; usually none."""

    options: int | None = None
    """The size of a closed answer set; ``None`` where the set is open or not declared."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.merges = cls.merges or cls.same is not AnswerType.same
        if "extract" in vars(cls) and "read" not in vars(cls):
            cls.read = AnswerType._extracted  # type: ignore[method-assign]

    @property
    def instruction(self) -> str:
        """The sentence under a question that asks for answers as :meth:`extract` reads them best."""
        return 'End with "The answer is ...".'

    @property
    def question_seconds(self) -> float:
        """Processor seconds that comparing the answers of one question may take; what is left then stays apart."""
        return 20.0

    @abstractmethod
    def canonical(self, answer: str) -> str | None:
        """The canonical form of an answer that was already extracted; ``None`` if it does not parse."""

    def extract(self, text: str) -> str | None:
        """The canonical answer of a model's free text; ``None`` if nothing parses."""
        # Of a type that writes `extract` and calls this one, `read` is that `extract`.
        readers = (vars(kind)["read"] for kind in type(self).__mro__ if "read" in vars(kind))
        read = next(reader for reader in readers if reader is not AnswerType._extracted)
        reading: Reading | None = read(self, text)
        return None if reading is None else reading.form

    def read(self, text: str) -> Reading | None:
        """The answer of a model's free text, and how the text spells it; ``None`` if nothing parses.

        The last ``\\boxed{...}`` decides alone; then what follows the last "answer is"; then the last line.
        """
        readings = ((self.canonical(passage), passage) for _, passage in places(text))
        return next((Reading(form, passage.strip(AROUND)) for form, passage in readings if form is not None), None)

    def _extracted(self, text: str) -> Reading | None:
        """:meth:`read` of a type that writes ``extract``: its forms are what is shown."""
        form = self.extract(text)
        return None if form is None else Reading(form, form)

    def same(self, first: str, second: str) -> bool:
        """Whether two canonical forms are one answer. Where canonical forms are unique, equality is all."""
        return first == second

    def same_at_once(self, first: str, second: str) -> bool | None:
        """Decide :meth:`same` without delay; ``None`` where that may take time, so that a thread is asked."""
        return None if first != second and type(self).same is not AnswerType.same else first == second

    def same_soon(self, first: str, second: str) -> bool | None:
        """Decide :meth:`same` within a moment; ``None`` where it takes longer, so that others go first."""
        return self.same(first, second)

    def processor_time(self) -> float:
        """Processor seconds that this thread has used, wherever its comparisons were made."""
        return time.thread_time()

    def classes(self) -> "Classes":
        """The growing partition of one question's answers."""
        return Classes(self.same)

    def merge(self, answers: Sequence[str]) -> dict[str, str]:
        """Canonical forms of ONE question in launch order -> the member of its class that was seen first."""
        classes = self.classes()
        for answer in answers:
            classes.add(answer)
        return {answer: classes.find(answer) for answer in answers}

    def labels(self, answers: Iterable[str | None]) -> list[str | None]:
        """The recorded answers of ONE question, each replaced by its class; ``None`` where no vote was cast."""
        forms = [None if answer is None else self.canonical(answer) for answer in answers]
        merged = self.merge([form for form in forms if form is not None])
        return [None if form is None else merged[form] for form in forms]

    def gold_form(self, gold: str) -> str | None:
        """The canonical form of a data set's right answer, which may stand at the end of a worked solution."""
        final = gold.rpartition(GSM8K_MARK)[2]
        form = None if BOX in final else self.canonical(final.strip())
        return self.extract(final) if form is None else form

    def gold_label(self, gold: str, labels: Iterable[str | None]) -> str | None:
        """The label of the answers that equal gold, else gold's own form; ``None`` where gold cannot be read.

        It joins the classes after the votes are counted: it must not make two of them one.
        """
        form = self.gold_form(gold)
        if form is None:
            return None
        return next((name for name in dict.fromkeys(labels) if name is not None and self.same(name, form)), form)


class Classes:
    """The answers of one question, fed one by one: connected components of ``same``, so order does not matter.

    Each is named by its member that was seen first. A new answer that equals two classes makes them one; with
    ``whole`` it joins the first class whose members it all equals.

    >>> classes = Classes(lambda first, second: abs(int(first) - int(second)) <= 1)
    >>> classes.add("1"), classes.add("3"), classes.add("2")
    ([], [], [('2', '1'), ('3', '1')])
    >>> classes.find("3")
    '1'
    """

    __slots__ = ("_members", "_name", "_same", "_whole")

    def __init__(self, same: Callable[[str, str], bool], *, whole: bool = False) -> None:
        self._same, self._whole = same, whole
        self._name: dict[str, str] = {}  # answer -> its class's first member
        self._members: dict[str, list[str]] = {}  # in order of the first member

    def add(self, answer: str) -> list[tuple[str, str]]:
        """Add an answer; returns what it merged, as ``(absorbed, into)``: votes for the first go to the second."""
        steps = self.adding(answer)
        try:
            pair = next(steps)
            while True:
                pair = steps.send(self._same(*pair))
        except StopIteration as end:
            merges: list[tuple[str, str]] = end.value
            return merges

    def adding(self, answer: str) -> Generator[tuple[str, str], bool, list[tuple[str, str]]]:
        """:meth:`add` in steps: yields pairs, is sent whether each is the same, and changes nothing before the end."""
        if answer in self._name:
            return []
        equal = []
        for name, members in self._members.items():
            equals = False
            for member in members:
                equals = yield member, answer
                if equals is not self._whole:
                    break
            if equals:
                equal.append(name)
            if equals and self._whole:
                break
        self._name[answer] = answer
        self._members[answer] = [answer]
        merges = [(name, equal[0]) for name in (answer, *equal[1:])] if equal else []
        for name, into in merges:
            for member in self._members.pop(name):
                self._name[member] = into
                self._members[into].append(member)
        return merges

    def find(self, answer: str) -> str:
        """The name of the class of an answer that was added."""
        return self._name[answer]

    def names(self) -> list[str]:
        """The classes, in the order in which their first members were seen."""
        return list(self._members)
