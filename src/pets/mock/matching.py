"""Which question a prompt asks: the longest id that stands in it as a word of its own, the last of equals.

Prompts without an id can be given whole, each with its question. Any other one gets the question that its hash picks:
always the same one, and counted as unmatched.

>>> matcher = QuestionMatcher(["q1", "q12", "Capital of France?"])
>>> matcher.find("Q: q1. And now q12:"), matcher.find("What is the Capital of France? One word."), matcher.find("q123")
(('q12', True), ('Capital of France?', True), ('q12', False))
>>> QuestionMatcher(["q1", "q2"], {"Q: 1 + 1?": "q2"}).find("Q: 1 + 1?")
('q2', True)
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

__all__ = ["QuestionMatcher"]


class QuestionMatcher:
    """The ids of all questions by length: a prompt of W words is looked up W times per length, however many ids."""

    def __init__(self, ids: Iterable[str], prompts: Mapping[str, str] | None = None) -> None:
        self._ids = list(ids)
        self._known = set(self._ids)
        self._prompts = {text: id for text, id in (prompts or {}).items() if id in self._known}
        self._lengths = sorted({len(id) for id in self._ids}, reverse=True)
        self.find = lru_cache(maxsize=1024)(self._find)

    def _find(self, prompt: str) -> tuple[str, bool]:
        """The question, and whether the prompt names it."""
        if prompt in self._known:
            return prompt, True
        if (whole := self._prompts.get(prompt)) is not None:
            return whole, True
        starts = [
            place
            for place, character in enumerate(prompt)
            if not character.isspace() and not (place and _in_word(prompt[place - 1]))
        ]
        for length in self._lengths:
            for start in reversed(starts):
                end = start + length
                if prompt[start:end] in self._known and end <= len(prompt) and _ends(prompt, end):
                    return prompt[start:end], True
        digest = hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return self._ids[int.from_bytes(digest, "big") % len(self._ids)], False


def _ends(text: str, end: int) -> bool:
    """Whether no word runs across ``end``."""
    return not (0 < end < len(text) and _in_word(text[end - 1]) and _in_word(text[end]))


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
