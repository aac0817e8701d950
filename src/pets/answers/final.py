"""Finds the passages of a free text in which the final answer may stand.

Texts come from models, and their users may be hostile: of a text its last ``MAX_TEXT_CHARS`` are looked at, every scan
is linear, and no passage is longer than ``MAX_PASSAGE_CHARS``, so that what reads passages is bounded.

>>> list(places(r"First 3, then 4. So \\boxed{7}."))
[('boxed', '7')]
>>> list(places("<think>the answer is 3?</think>\\nThe final answer is **4**.\\nThanks!"))
[('cue', '4**.'), ('line', 'The final answer is **4**.')]
>>> list(places('```json\\n{"reason": "The answer is 3.", "answer": "4"}\\n```'))
[('marked', '4')]
"""

import json
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from typing import Any, Literal

from pets.answers.phrases import TABLES, words
from pets.patterns import BLANK, END, LETTER, START, Match, Pattern

Place = Literal["boxed", "marked", "cue", "line", "first"]
"""In a box; in a tag or a JSON field; beside "the answer is"; in the last line; in the first of several."""

MAX_TEXT_CHARS = 100_000
MAX_PASSAGE_CHARS = 2000  # a longer box holds no answer; a longer line is prose, and only its near end is read
MAX_SUBJECT_CHARS = 120  # of "... is the correct answer"
MAX_CUES = 4
SHORTEST_STATEMENT_CHARS = 3  # "答：7"
MAX_EVENTS = 50
MAX_JSON_STARTS = 20
MAX_JSON_DEPTH = 5
MAX_BOXES = 8
MAX_JOINT_CHARS = 40
MAX_FIRST_CHARS = 200
MAX_POINTS = 50  # of a list
LONG_SENTENCE_WORDS = 10  # a longer one that ends in a word without a full stop was cut


def _blanks(fragment: str) -> str:
    return fragment.replace(" ", r"\s+")


SIGN = r"[:=：→⇒]|->|=>"
# What an answer follows: "the answer is", in every language of the table: the nouns, and what follows each.
NOUNS = [Pattern(_blanks(nouns)) for nouns, _ in TABLES["announcements"]]
NOUN = Pattern(rf"(?:{'|'.join(nouns.pattern for nouns in NOUNS)}){END}")
COMPOUND = Pattern(rf"\s+(?:choices?|options?|key|sheet){END}")
TAILS = [
    Pattern(
        _blanks(
            rf"[*_]*\s+[—–-]\s|{SIGN}|[^.:=：!?\n]{{0,59}}?(?:[^.:=：!?\n\w](?:{verbs}){END}|[^.:=：!?\n](?:{SIGN}))"
        )
    )
    for _, verbs in TABLES["announcements"]
]
MAX_TAIL_CHARS = 120  # more than any of them takes
ANNOUNCEMENT = Pattern(_blanks("|".join([words("unspaced_announcements"), words("choosing")])))
# What follows an answer: "is the correct answer". Three adjectives at most: a match looks no further ahead.
RIGHT = words("right")
LATIN_VERDICTS = [
    rf"(?:{verbs})\s+(?:(?:{words('adverbs')})\s+)?(?:(?:{articles})\s+)?(?:(?:(?:{RIGHT})\s+){{0,3}}(?:{nouns})(?:\s+(?:{RIGHT}))?|(?:{RIGHT}))"
    for verbs, articles, nouns in TABLES["verdicts"]
]
VERDICT = Pattern(_blanks(f"({'|'.join(LATIN_VERDICTS)}){END}|{words('other_verdicts')}"))
CONDITION = Pattern(rf"\s+(?:only|if|when|that|in|to|about|for){END}")  # after "is correct", which is then no verdict
WEAK = Pattern(rf"(?:{_blanks(words('weak_nouns'))})[*_]*\s*(?:{SIGN})")
HEADING = Pattern(
    rf"(?m)^[#>*_ \t]{{0,20}}(?:the\s|my\s)?(?:final\s|correct\s|{_blanks(words('right'))}\s)?"
    rf"(?:{'|'.join(nouns for nouns, _ in TABLES['announcements'])}|{_blanks(words('weak_nouns'))}|答案|答え|정답)"
    r"[*_:：# \t]{0,20}$|^[ \t]{0,20}####›(?:[^#]|\z)"
)
CORRECTION = Pattern(rf"(?:{_blanks(words('corrections'))}){END}")
SOFT_CORRECTIONS = frozenset(words("soft_corrections").split("|"))
TAKEN_BACK = frozenset(".!?,;:—–-(*\n。…")
VERB_BEFORE = frozenset(words("before_a_verb").split("|"))
PRONOUNS = Pattern(rf"(?:{words('pronouns')})\n?\z")
NEGATION = Pattern(rf"(?:not|n['’]t|never|neither|nicht|kein|no|ne|pas|non|não|не|niet|不){END}")
FINITE = Pattern(rf"{START}(?:is|are|was|were|ist|est|es){END}")
CONJUNCTION = Pattern(rf",\s|{START}(?:and|but|so|while|whereas|because|hence|then){END}")
CLAUSE_END = Pattern(r"[.!?:;。！？：；\n]›(?:\s|\z)|[。！？：；，]")
DENIAL = Pattern(r"(?:no|nein|non|nope|not that)\s*[,:;.—–-]+\s+›\S")
LEAD = Pattern(r"(?:[*_:：,\s`\"'“”‘’|#>]|\.\s)*")

BOX = Pattern(r"\\(?:boxed|fbox)\s*\{", needs="\\")
JOINT = Pattern(
    r"[\s$\\()\[\].*]*(?:,|;|&|and|or|und|oder|y|o|et|ou|e|и|или|和|或)[\s$\\()\[\].*]*(?:[a-zA-Z]\w?\s*=\s*)?"
)
JOINT_MARKS = str.maketrans("", "", "$\\()[].*")
TAG = Pattern(rf"(?i)[<\[](/?)({words('tags')})[>\]]")
OBJECT = Pattern(r"\{\s*\"", needs="{")
DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
KEY_GAP = Pattern(r"[\s-]")
# The marks of transport, and what stands for each: special tokens, fences, HTML.
WRAPPING = (
    (Pattern(r"<\|[a-z_]{1,30}\|>|</s>|<end_of_turn>|<eos>", needs="<"), " "),
    (Pattern(r"\\boxed\s+(-?[0-9]+(?:[.,/][0-9]+)*|[A-Za-z])›(?:\W|\z)", needs="\\boxed"), r"\\boxed{\1}"),
    (Pattern(rf"(?m)^{BLANK}*```\w*{BLANK}*$", needs="```"), ""),
    (Pattern(rf"(?m)^{BLANK}*~~~\w*{BLANK}*$", needs="~~~"), ""),
    (Pattern(r"(?i)</?(?:b|i|u|strong|em|p|br|div|span|code|center|mark|h[1-6])\s?/?>", needs="<"), ""),
)
NOT_ASCII_WRAPPING = (
    (Pattern("[\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff\ufe0f\u200d]"), ""),  # emojis
    (Pattern("([\u0300-\u036f]{30})[\u0300-\u036f]+"), r"\1"),  # sorting accents takes the square of their number
)
DISPLAY = Pattern(r"\\\[|\\\]|\$\$|\\begin\{(?:align|equation|gather)\*?\}|\\end\{(?:align|equation|gather)\*?\}")
POINT = Pattern(
    rf"(?:[-*•]|\d{{1,2}}[.)])\s+[*_`]*({LETTER}[^\s.:;,=*_`]*(?: {LETTER}[^\s.:;,=*_`]*){{0,3}})[*_`]*[.,;]?"
)
# The characters of lines that only part others.
RULE_CHARS = "-=_*#~.|> \t\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u2002\u2003\u2009\u202f\u3000"
PLEASANTRY = Pattern(rf"\W{{0,6}}(?:{_blanks(words('pleasantries'))})")
AFTERMATH = Pattern(
    rf"\W{{0,6}}(?:{_blanks(words('aftermath'))})(?:\W{{0,4}}\z|\s*[:：,*]|\s+(?:this|that|the|our|by|it){END})"
)
OPENER = Pattern(rf"[\s*_,:;—–-]*(?:{_blanks(words('openers'))})(?:[\s*,:;—–-][\s*_,:;—–-]*|{END})")
UNSURE = Pattern(rf"{START}(?:{_blanks(words('unsure'))}|{_blanks(words('unable'))})")
PREAMBLE = Pattern(rf"(?:{words('preambles')})(?:[^,.\n\w][^,.\n]{{0,99}})?,\s+›\S")
NEXT_QUESTION = Pattern(
    rf"\n{BLANK}{{0,20}}\n[#*_\s]{{0,6}}(?:{words('question_heads')})\s?\d{{0,3}}[*_]{{0,2}}\s?[:：.)]", needs="\n"
)
DANGLING = Pattern(
    rf"(?:[,(\[{{=]|\s[+*/×·<>&-]|\\(?:cdot|times|frac|sqrt|le|ge|pm)|(?:\A|\W)(?:{words('dangling')}))\s*\z"
)
CLOSED = Pattern(r"(?:[.!?。！？…][*_\"'”’)\]$\s]*|\$|\\\]|\\\)|\})\s*\z")
SENTENCE_END = Pattern(r"[.!?。！？]‹[*_\"'”’)]{0,3}\s+|[。！？]‹")


def places(text: str) -> Iterator[tuple[Place, str]]:
    """The passages where the answer may stand, best first, each with its kind.

    A JSON field, a tag or a box decides alone, unless a statement follows it; thoughts that were not closed hold no
    answer.
    """
    visible = _unwrapped(text)
    field = _json_field(visible)
    if field is not None:
        yield from _within(field)
        return
    mark = _last_mark(visible)
    start = max(_corrections(_fold(visible), soft=False), default=0)  # what stands before it is taken back
    if mark is None or start > mark[2]:
        if start:
            start = _skip_lead(visible, start)
            denial = DENIAL.match(_fold(visible[start : start + MAX_FIRST_CHARS]))
            start += denial.end() if denial else 0
        yield from _statements(visible[start:])
        if start and (rest := _rest(visible, start)):
            yield "cue", rest
        yield from _lines(visible[start:])
        return
    kind, content, end = mark
    if kind == "marked":
        yield from _within(content)
    elif len(content) <= MAX_PASSAGE_CHARS:
        yield "boxed", content
    else:
        return
    yield from _statements(visible[end:])


def boxed(text: str) -> str | None:
    r"""The content of the last complete and non-empty ``\boxed{...}``.

    >>> boxed(r"\boxed{1} or rather \boxed{\{2, \frac{1}{3}\}}, and \boxed{4")
    '\\{2, \\frac{1}{3}\\}'
    """
    return next((content for _, _, content in _boxes(text)), None)


def strip_openers(passage: str) -> str:
    """Strip the words that open a conclusion.

    >>> strip_openers("So it's therefore B.")
    'B.'
    """
    folded, start = _fold(passage), 0
    while (opener := OPENER.match(folded, start) or PREAMBLE.match(folded, start)) and opener.end() > start:
        start = opener.end()
    return passage[start:].lstrip(" *_,:;")


def visible_text(text: str) -> str:
    """The text that follows the model's thoughts; empty where they never end."""
    for opening, closing in TABLES["thoughts"]:
        text = text.rpartition(closing)[2]
        if opening in text:
            return ""
    return text


def _unwrapped(text: str) -> str:
    """The end of the visible text without the marks of transport, each display formula on one line.

    Base models run on: where the text before their own next question is an answer, what follows is left out.
    """
    text = visible_text(text)[-MAX_TEXT_CHARS:]
    for pattern, replacement in WRAPPING if text.isascii() else (*WRAPPING, *NOT_ASCII_WRAPPING):
        text = pattern.sub(replacement, text)
    pieces, index, is_open = list[str](), 0, False
    for display in DISPLAY.finditer(text):
        piece = text[index : display.end()]
        pieces.append(piece.replace("\n", " ") if is_open else piece)
        is_open = not is_open if display[0] == "$$" else display[0].startswith((r"\[", r"\begin"))
        index = display.end()
    text = "".join(pieces) + text[index:]
    following = NEXT_QUESTION.search(_fold(text)) if "\n" in text else None
    if following is None:
        return text
    before = text[: following.start()]
    words = before.split()
    alone = 0 < len(words) <= 2 and len(words[-1]) <= MAX_JOINT_CHARS and words[-1][-1] != ":"
    return before if alone or _last_mark(before) or any(True for _ in _statements(before)) else text


def _fold(text: str) -> str:
    """The text in lower case, of the same length."""
    return text.replace("İ", "i").lower().replace("’", "'")


# Boxes, tags, JSON


def _last_mark(text: str) -> tuple[Place, str, int] | None:
    """The last box or tag: its kind, its content and where it ends.

    Boxes that a comma or a word joins ("3 or 5") are one; a tag that is never closed runs to the end.
    """
    box, box_start, box_end = "", 0, 0
    for start, end, content in islice(_boxes(text), MAX_BOXES):
        between = text[end:box_start]
        if not box:
            box, box_end = content, end
        elif len(between) <= MAX_JOINT_CHARS and JOINT.fullmatch(between):
            box = f"{content} {between.translate(JOINT_MARKS).strip()} {box}"
        else:
            break
        box_start = start
    opening: Match | None = None
    tagged, tag_end = "", 0
    for tag in TAG.finditer(text):
        if not tag[1]:
            opening = tag
        elif opening is not None and opening[2].lower() == tag[2].lower():
            tagged, tag_end, opening = text[opening.end() : tag.start()], tag.end(), None
    if opening is not None and opening[0][0] == "<":
        tagged, tag_end = text[opening.end() :], len(text)
    if tagged.strip() and tag_end >= box_end:
        return "marked", tagged, tag_end
    return ("boxed", box, box_end) if box else None


def _boxes(text: str) -> Iterator[tuple[int, int, str]]:
    """Complete boxes that hold something, the last first: start, end, content."""
    limit = len(text)
    for match in reversed(list(BOX.finditer(text))):
        start = index = match.end()
        depth = 1
        while depth and index < limit:
            char = text[index]
            depth += (char == "{") - (char == "}")
            index += 2 if char == "\\" else 1
        if depth:
            limit = match.start()  # it swallows the rest, so no earlier box can close beyond it
        elif content := text[start : index - 1].strip():
            yield match.start(), index, content


def _within(content: str) -> Iterator[tuple[Place, str]]:
    """The places of a marked content: its own statements, else all of it."""
    box = boxed(content)
    if box is not None:
        if len(box) <= MAX_PASSAGE_CHARS:
            yield "boxed", box
        return
    yield from _statements(content)
    for place, line in _lines(content):
        yield ("marked" if place == "line" else place), line


def _json_field(text: str) -> str | None:
    """The answer of the last JSON object that has one; ``""`` where it says that there is none."""
    field, index = None, 0
    for _ in range(MAX_JSON_STARTS):
        start = OBJECT.search(text, index)
        if start is None:
            break
        index = start.end()
        try:
            item, index = DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            continue
        answer = _answer_of(item, MAX_JSON_DEPTH)
        field = field if answer is None else answer
    return field


def _answer_of(item: Any, depth: int) -> str | None:
    """The answer in a decoded JSON value; ``None`` if nothing there is called one."""
    if item is None or isinstance(item, str):
        return item or ""
    if isinstance(item, bool):
        return str(item).lower()
    if not depth:
        return None
    if isinstance(item, list):
        return ", ".join(filter(None, (_answer_of(part, depth - 1) for part in item[:50]))) or None
    fields = {KEY_GAP.sub("_", _fold(str(key))): value for key, value in item.items()}
    if isinstance(fields.get("unit"), str) and isinstance(fields.get("value"), str):
        return f"{fields['value']} {fields['unit']}"
    named = [fields[key] for key in TABLES["json_keys"] if key in fields]
    nested = [value for value in fields.values() if isinstance(value, dict)]
    answers = named or (nested if len(nested) == 1 else list(fields.values()))
    return _answer_of(answers[0], depth - 1) if named or len(answers) == 1 else None


# Statements: "the answer is", "is the correct answer", "wait, no"


def _corrections(folded: str, *, soft: bool) -> list[int]:
    """The ends of the words that take back what was said; with ``soft``, of those too that may mean something else."""
    ends = []
    for match in CORRECTION.finditer(folded):
        before = folded[max(0, match.start() - 3) : match.start()].rstrip(" ")
        takes_back = match.start() and (not before or before[-1] in TAKEN_BACK or before[-2:] in ("no", "oh", "ut"))
        if takes_back and (soft or match[0] not in SOFT_CORRECTIONS):
            ends.append(match.end())
    return ends


def _statements(text: str) -> Iterator[tuple[Place, str]]:
    """The passages that the text states as its answer, the last first."""
    if len(text) < SHORTEST_STATEMENT_CHARS:
        return  # the stop after a box, mostly
    folded = _fold(text)
    verdicts = [
        match.span()
        for match in VERDICT.finditer(folded)
        if _word_starts(folded, match.start()) and not (match[1] and CONDITION.match(folded, match.end()))
    ]
    events = {(end, end, False) for end in _corrections(folded, soft=True)}
    events |= {(start, end, True) for start, end in verdicts}
    for start, end in _announcements(folded):
        before = bisect_right(verdicts, (start, 0)) - 1
        if before < 0 or start >= verdicts[before][1]:  # within no verdict
            events.add((start, end, False))
    latest = sorted(events, key=lambda event: event[1], reverse=True)[:MAX_EVENTS]
    passages = (_subject(text, start) if reverse else _rest(text, end) for start, end, reverse in latest)
    for passage in islice(filter(None, passages), MAX_CUES):
        yield "cue", passage
        if NEGATION.match(_fold(passage)):
            return


def _announcements(folded: str) -> Iterator[tuple[int, int]]:
    """The spans that announce an answer: a noun with its verb or sign, phrases, headings; near the end, weak nouns."""
    spans = [match.span() for match in ANNOUNCEMENT.finditer(folded)]
    for noun in NOUN.finditer(folded):
        rest = folded[noun.end() : noun.end() + MAX_TAIL_CHARS]
        tail = _tail(noun[0]).match(rest)
        if tail and not COMPOUND.match(rest):
            spans.append((noun.start(), noun.end() + tail.end()))
    last_end = 0
    for start, end in sorted(spans):
        if start < last_end:  # none within another
            continue
        last_end = end
        before = folded[max(0, start - 12) : start].split()
        is_infinitive = before and before[-1] in VERB_BEFORE and folded[start - 1] != "\n"
        if _word_starts(folded, start) and not is_infinitive:
            yield start, end
    yield from (match.span() for match in HEADING.finditer(folded))
    weak = WEAK.finditer(folded, max(0, len(folded) - 2 * MAX_FIRST_CHARS))
    yield from (match.span() for match in weak if _word_starts(folded, match.start()))


@lru_cache(maxsize=256)
def _tail(noun: str) -> Pattern:
    """The pattern of what follows a noun of the table."""
    return next(tail for nouns, tail in zip(NOUNS, TAILS, strict=True) if nouns.fullmatch(noun))


def _word_starts(text: str, index: int) -> bool:
    """Whether a word begins there; in writing without blanks it always may."""
    return not index or not (text[index - 1].isalnum() and text[index - 1] < "\u3000") or text[index] >= "\u3000"


def _rest(text: str, end: int) -> str:
    """The passage after an announcement: the rest of its line, or the next one."""
    start = _skip_lead(text, end)
    if "\n" in text[end:start] and text.startswith(("- ", "• "), start):
        start += 2
    return text[start:].partition("\n")[0].strip()[:MAX_PASSAGE_CHARS].strip()


def _skip_lead(text: str, index: int) -> int:
    lead = LEAD.match(text, index)
    return lead.end() if lead else index


def _subject(text: str, start: int) -> str:
    """The subject of "is the correct answer"; empty where it is a pronoun or too long."""
    first = max(0, start - MAX_SUBJECT_CHARS)
    *clauses, subject = CLAUSE_END.split(text[first:start])
    if first and not clauses:
        return ""
    subject = subject.strip()
    if FINITE.search(subject):  # "A is wrong and B"
        subject = CONJUNCTION.split(subject)[-1]
    return "" if PRONOUNS.search(_fold(subject).strip(" *_,")) else strip_openers(subject)


# Lines


def _lines(text: str) -> Iterator[tuple[Place, str]]:
    """The last line that says something, and the first, where there are several.

    None where the text breaks off or asks back: nothing there is an answer.
    """
    lines = _plain_lines(text)
    if not lines:
        return
    last = lines[-1]
    for end in SENTENCE_END.finditer(last):
        if end.start() and _begins(PLEASANTRY, last[end.end() :]):  # a goodbye behind the first sentence
            last = last[: end.start()].strip()
            break
    is_closed = CLOSED.search(last[-MAX_JOINT_CHARS:])
    if not is_closed:  # what stands before a sentence that does not end is no conclusion
        ends = [end.end() for end in SENTENCE_END.finditer(last)]
        last = last[ends[-1] :] if ends and len(last[: ends[-1]].split()) > 3 and len(last) - ends[-1] > 1 else last
    end_of_last = _fold(last[-MAX_FIRST_CHARS:]).rstrip(" *_")
    is_open = last.count(r"\(") > last.count(r"\)") or last.count(r"\[") > last.count(r"\]")
    if is_open or end_of_last.endswith(("?", "？")) or DANGLING.search(end_of_last):
        return
    is_cut = not is_closed and end_of_last[-1:].isalpha() and last[-1] not in "*_`"
    if is_cut and len(last.split()) >= LONG_SENTENCE_WORDS:
        return
    if len(last) > MAX_PASSAGE_CHARS:
        last = last[-MAX_PASSAGE_CHARS:].partition(" ")[2]
    if last and not UNSURE.search(_fold(last)):
        yield "line", last
    if len(lines) > 1 and len(lines[0]) <= MAX_FIRST_CHARS and lines[0].rstrip("*_")[-1:] != ":" and lines[0][0] != "#":
        yield "first", lines[0]


def _plain_lines(text: str) -> list[str]:
    """The lines that say something: no rules, no goodbyes, nothing after the answer's explanation begins.

    A list of names at the end of the text is one line.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line[:MAX_PASSAGE_CHARS].strip(RULE_CHARS)]
    for index, (before, line) in enumerate(pairwise(lines), 1):
        if len(before) < MAX_FIRST_CHARS and before[-1] != ":" and _begins(AFTERMATH, line):
            lines = lines[:index]
            break
    while len(lines) > 1 and (_begins(PLEASANTRY, lines[-1]) or _begins(AFTERMATH, lines[-1])):
        lines.pop()
    points = list(takewhile(bool, map(POINT.fullmatch, reversed(lines[-MAX_POINTS:]))))
    names = ", ".join(point[1] for point in reversed(points) if point)
    return [*lines[: -len(points)], names] if len(points) > 1 else lines


def _begins(pattern: Pattern, line: str) -> bool:
    return pattern.match(_fold(line[:MAX_FIRST_CHARS])) is not None
