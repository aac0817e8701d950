"""``RecentQuestions``: the latest votes with their traces, to be looked into; bounded in number and in characters.

They are in memory alone. A question is its key's own: another key, unless it is an admin's, gets none of it.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pets.gateway.auth import ApiKey
from pets.gateway.responses import AnsweredVote
from pets.store import StoredTrace

MAX_QUESTIONS = 500
MAX_CHARACTERS = 16 << 20  # of all questions together
TRACE_CHARACTERS = 500  # that a trace takes beside its texts, in memory
TEXT_CHARACTERS = 8_000  # of one text
SHOWN_ANSWERS = 4  # with a part of their own in the bar of a question's votes
PREVIEW_CHARACTERS = 160  # of a question, in lists
ANSWER_CHARACTERS = 120  # that of a question in free text may be long
SHOWN_OF_A_VOTE = (
    "certificate", "traces", "stopped", "warmup", "weighted", "seconds", "retries", "lost", "tokens", "prompt_tokens",
    "upstream_seconds", "cancelled",
)  # fmt: skip


class RecentQuestions:
    """Votes that are over, each with what its page shows; the oldest go first. Without ``texts``, answers alone."""

    def __init__(
        self, max_questions: int = MAX_QUESTIONS, max_characters: int = MAX_CHARACTERS, *, texts: bool = True
    ) -> None:
        self._max_questions, self._max_characters, self.texts = max_questions, max_characters, texts
        self._details: OrderedDict[str, tuple[dict[str, Any], int]] = OrderedDict()
        self._characters = 0

    def add(self, vote: AnsweredVote, metadata: dict[str, Any], *, spent: float, now: float) -> dict[str, Any]:
        """Keep a vote that has cost ``spent``, as amounts are shown; returns the row that lists show of it.

        ``metadata`` is the ``pets`` object of its response.
        """
        characters, asked = TEXT_CHARACTERS if self.texts else 0, vote.request.last_user_message
        message, question = last_characters(asked, characters), vote.outcome.question
        row = {name: metadata[name] for name in SHOWN_OF_A_VOTE} | {
            "id": vote.answer.id,
            "key": vote.account.key.name,
            "model": vote.request.model,
            "question": last_characters(" ".join(asked.split()), PREVIEW_CHARACTERS if self.texts else 0),
            "answer": metadata["answer"] and metadata["answer"][:ANSWER_CHARACTERS],
            "parts": vote_parts(metadata),
            "at": now,
            "spent": spent,
        }
        names, kept = question.spellings(), question.traces or {}
        traces = [_trace_row(kept[number], names, characters) for number in sorted(kept)]
        ranked = sorted(metadata["votes"].items(), key=lambda item: -item[1])
        answers = [(answer[:ANSWER_CHARACTERS], votes) for answer, votes in ranked]
        detail = row | {"message": message, "answers": answers, "trace_list": traces}
        detail["messages"] = len(vote.request.fields["messages"])
        size = len(message) + sum(len(trace["text"]) + len(trace["error"] or "") + TRACE_CHARACTERS for trace in traces)
        self._details[row["id"]] = detail, size
        self._characters += size
        while len(self._details) > self._max_questions or self._characters > self._max_characters:
            self._characters -= self._details.popitem(last=False)[1][1]
        return row

    def find(self, id: str, key: ApiKey) -> dict[str, Any] | None:
        """A vote that this key may see, if it is still kept."""
        detail, _ = self._details.get(id, (None, 0))
        if detail is None or key.admin:
            return detail
        # Which servers there are, and what they say, is the operator's business.
        traces = [trace | {"server": None, "error": trace["error"] and "failed"} for trace in detail["trace_list"]]
        return detail | {"trace_list": traces} if detail["key"] == key.name else None


def vote_parts(metadata: dict[str, Any]) -> list[tuple[str, str, float]]:
    """The parts of a bar of all traces that were paid for, as (kind, name, votes): they add up to them.

    The leading answers, the others together, traces without an answer, and traces that were paid for and not counted.
    Votes weighted by confidence have no place in it for traces without a vote.

    >>> votes = {"votes": {"A": 5, "B": 2}, "no_answer": 3, "failed": 2, "traces": 10, "weighted": False}
    >>> vote_parts(votes)
    [('answer', 'A', 5), ('answer', 'B', 2), ('no answer', 'no answer', 1), ('not counted', 'lost or late', 2)]
    """
    ranked = sorted(metadata["votes"].items(), key=lambda item: -item[1])
    parts = [("answer", answer[:ANSWER_CHARACTERS], votes) for answer, votes in ranked[:SHOWN_ANSWERS]]
    if others := ranked[SHOWN_ANSWERS:]:
        name = f"{len(others)} other answer{'s' * (len(others) > 1)}"
        parts.append(("others", name, sum(votes for _, votes in others)))
    if metadata["weighted"]:
        return parts
    counted = sum(votes for _, votes in ranked)
    no_answer = min(metadata["no_answer"] - metadata["failed"], metadata["traces"] - counted)
    parts.append(("no answer", "no answer", no_answer))
    parts.append(("not counted", "lost or late", metadata["traces"] - counted - no_answer))
    return [part for part in parts if part[2] > 0]


def last_characters(text: str, characters: int) -> str:
    """The end of a text, from a word on: what is asked or answered stands there. For no characters, nothing.

    >>> last_characters("one two three", 9)
    '… three'
    """
    if len(text) <= characters or not characters:
        return text[:characters]
    end = text[2 - characters :]
    head, _, tail = end.partition(" ")
    return f"… {tail if tail and len(head) < characters // 4 else end}"


def _trace_row(trace: StoredTrace, names: Mapping[str, str], characters: int) -> dict[str, Any]:
    """What is shown of a trace, with the name of the class that it counts for as its answer."""
    return {
        "number": trace.number + 1,
        "answer": trace.answer and names.get(trace.answer, trace.answer)[:ANSWER_CHARACTERS],
        "finish": trace.finish,
        "tokens": trace.tokens,
        "seconds": round(trace.seconds, 3),
        "server": trace.endpoint + 1,
        "tries": trace.tries,
        "error": trace.error,
        "text": last_characters(trace.text, characters),
    }
