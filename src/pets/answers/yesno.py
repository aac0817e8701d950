"""Yes or no, in several languages, with or without a reason; ``true`` is yes. "Maybe" and "yes and no" are no vote."""

import unicodedata
from dataclasses import dataclass

from pets.answers.base import AnswerType, Reading
from pets.answers.final import boxed, places, visible_text
from pets.answers.phrases import words
from pets.patterns import END, START, Pattern

MAX_CHARS = 2_000  # of a passage, its first: what follows is a reason
MAX_COMPOSED_CHARS = 200  # of it, its first: composing many accents takes the square of their number
WORDS = {word: verdict for verdict in ("yes", "no") for word in words(verdict).split("|")}
WORD = "|".join(sorted(WORDS, key=len, reverse=True))
LEAD_WORD = "the|final|correct|my|short|answer|statement|claim|it|this|that|is|so|therefore|thus|hence"
LEAD = rf"(?:(?:{LEAD_WORD})[\s:,=]+){{0,8}}"
# "No prime is even" is a sentence, "No, it is even" and "No because ..." are answers.
REASON = r"because|since|as|due|for|it|its|it's|the|this|that|these|those|there|they|he|she|we|you|i|indeed|definitely"
ANSWER = Pattern(rf"(?i){LEAD}({WORD})(?:\s*(?:\z|[^\w\s'’/-])|\s*[-–—]+\s|\s+(?:{REASON}){END})")
BOTH = Pattern(rf"(?i)(?:{WORD})\W{{0,3}}\s*(?:and|or|/|und|oder|y|o|et|ou)\s*\W{{0,3}}(?:{WORD}){END}")
UNSURE = Pattern(rf"(?i){START}(?:{words('undecided')}){END}")
VERDICT = Pattern(
    rf"(?i)(?:{START}(?:is|are|was|were|be)|(?:that|it)['’]s)\s+(not\s+)?(true|false|correct|incorrect|untrue)\s*[.!]*\s*\z"
)
# "300 is not divisible by 7, so no."
IN_PASSING = Pattern(
    r"(?i)[,;:.]\s+(?:so|hence|thus|therefore|then)(?:,|\s+the answer is)?\s+(yes|no|true|false)\s*[.!]*\s*\z"
)
LETTERS = {"y": "yes", "n": "no"}
DRESS = Pattern(r"[*_`\"“”„«»$]+|\\(?:text|textbf|mathrm|boxed)\s*›\{|[{}()\[\]]")


@dataclass(frozen=True, slots=True)
class YesNo(AnswerType):
    """Yes or no.

    >>> [YesNo().canonical(answer) for answer in ("Yes, because it is prime.", "FALSE", "Nein.", "Yes and no.")]
    ['yes', 'no', 'no', None]
    """

    operator_only = False
    reads_at_once = True
    options = 2
    instruction = 'End with "The answer is yes." or "The answer is no."'

    def canonical(self, answer: str) -> str | None:
        reading = self._read(answer)
        return None if reading is None else reading.form

    def _read(self, answer: str) -> Reading | None:
        """The word that the passage begins with, or the verdict that it ends with ("... is false.")."""
        composed = unicodedata.normalize("NFC", answer[:MAX_COMPOSED_CHARS]) + answer[MAX_COMPOSED_CHARS:MAX_CHARS]
        bare = " ".join(DRESS.sub(" ", composed).split())
        if BOTH.match(bare) or UNSURE.search(bare):
            return None
        if word := ANSWER.match(bare):
            return Reading(WORDS[word[1].casefold()], word[1])
        if (letter := bare.strip(" .!").casefold()) in LETTERS:
            return Reading(LETTERS[letter], letter.upper())
        if len(answer) <= MAX_CHARS and (passing := IN_PASSING.search(bare)):
            return Reading(WORDS[passing[1].casefold()], passing[1])
        if len(answer) <= MAX_CHARS and (verdict := VERDICT.search(bare)):
            positive = verdict[2].lower() in ("true", "correct")
            return Reading("yes", "Yes") if positive is not bool(verdict[1]) else Reading("no", "No")
        return None

    def read(self, text: str) -> Reading | None:
        """The verdict in a box, else after "answer is"; else in the first and the last line, unless they disagree."""
        visible = visible_text(text)
        for place, passage in places(text):
            if place == "line":
                break
            if (answer := self._read(passage)) is not None or place == "boxed":
                return answer
        lines = [line for line in visible.splitlines() if line.strip()]
        readings = [reading for line in (*lines[-1:], *lines[:1]) if (reading := self._read(line)) is not None]
        alike = len({reading.form for reading in readings}) == 1
        return readings[0] if alike and boxed(visible) is None else None
