"""Free text: names, dates, short phrases. Equal after case, accents, articles, punctuation and spelling are folded.

``The Nile`` is ``nile``, ``São Paulo`` is ``sao paulo``, ``U.S.A.`` is ``united states``, ``two`` is ``2`` and ``May
1, 2021`` is ``2021-05-01``; ``05/01/2021`` stays as it is but for its zeros, since its month could be either.
Signs and symbols stay: ``-5``, ``C++`` and ``#1`` are answers, not noise. What is one answer by its meaning alone is
left to the ``judge`` type.
"""

import unicodedata
from calendar import month_abbr, month_name
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import islice

from pets.answers import quantity, rational
from pets.answers.base import MAX_CACHED_CHARS, AnswerType, Reading
from pets.answers.final import places, strip_openers
from pets.answers.phrases import TABLES, words
from pets.patterns import END, LETTER, START, Pattern

MAX_CHARS = 10_000  # what is longer is no short text; sorting its accents alone could take the square of its length
MAX_ROUNDS = 10
MAX_BARE_WORDS = 5  # of a line that is an answer by itself
MAX_ANSWER_WORDS = 12
MAX_SENTENCES = 20

LEADING = " \t\"'`*_“”‘’«»¿¡"
TRAILING = LEADING + ".,;:!?。，！？、"
INVISIBLE = str.maketrans("", "", "\u200b\u2060\ufeff")
# NFKC alone would read 10² as 102 and 2½ as 21/2.
RAISED = Pattern("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
VULGAR = Pattern("[0-9]‹›[¼-¾⅐-⅞]")
FONT = Pattern(r"\\(?:boxed|text|textbf|mathrm)\{([^{}]*)\}")
ACCENTED = Pattern("([a-z])[\u0300-\u036f]+")
STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"})

INITIALS = Pattern(rf"{START}[a-z](?:(?:\. ?[a-z]){{1,5}}(?:\.|›(?:[^\w.]|\z))|(?: [a-z]){{1,5}}›(?:\z| [a-z]{{2}}))")
INITIALS_GAPS = str.maketrans("", "", ". ")
STOP = Pattern(r"[a-z]‹\.›(?: |[a-z](?:[^a-z]|\z))", needs=".")
ARTICLE = Pattern(r"\A(?:the|an?) ›\S")
HYPHEN = Pattern(r"[a-z]‹[-‐‑–]›[a-z]")
COMMA = Pattern(r"[,;]› ")
LIST_AND = Pattern(r",? (?:and|&)› [^ ]")  # "red, green and blue" is "red, green, blue"
APOSTROPHE = Pattern(r"[a-z]‹['’`]›(?:[a-z ]|\z)")
QUOTES = str.maketrans("", "", '"“”«»')
SPELLINGS: dict[str, str] = TABLES["spellings"]
SYNONYMS: dict[str, str] = TABLES["synonyms"]
NAMED_TIMES: dict[str, str] = TABLES["times_of_day"]
SPELLED = Pattern(r"(?:\A|\s)‹(?:(?:mt|st|ft|dr|mr|&)› [a-z]|okay›(?:\s|\z))")
SHORT_STATES = Pattern(r"(?:the )?U\.?S\.?\.?")
YES_OR_NO = Pattern(
    rf"(?i)(yes|no|true|false)(?:\s*[,;:!—–]|\.\s+(?:{LETTER}|_)|\s+-\s"
    rf"|\s+(?:because|since|as|it|this|that|they|there){END})"
)
ANY_LETTER = Pattern(LETTER)
SYMBOL = Pattern(r"0\d|.*\d(?:st|nd|rd|th)\n?\z")


@dataclass(frozen=True, slots=True)
class Text(AnswerType):
    """Short text, compared after folding.

    >>> Text().canonical(' “New  York.” '), Text().canonical("1 May 2021"), Text().canonical("...")
    ('new york', '2021-05-01', None)
    >>> Text().extract("The capital of France is Paris.\\n\\nLet me know if you need anything else!")
    'paris'
    """

    operator_only = False
    reads_at_once = True
    instruction = 'End with "The answer is ...", in a few words at most.'

    def canonical(self, answer: str) -> str | None:
        """The answer folded, without article and punctuation; dates and numbers in one spelling."""
        return cached_canonical(answer) if len(answer) <= MAX_CACHED_CHARS else _canonical(answer)

    def read(self, text: str) -> Reading | None:
        """The answer in a box, a tag, a JSON field or the last statement, a short line, or a sentence."""
        passages = places(text)
        for place, passage in passages:
            answer: str | None = None
            if place in ("cue", "marked"):
                answer = _stated(passage, whole=place == "marked")
            elif place == "line":
                first = next((first for _, first in passages), "")
                answer = None if DOUBT.search(passage) else _concluded(passage, first)
            if answer is not None and (DOUBT.search(answer) or ALTERNATIVES.fullmatch(answer)):
                return None
            if answer is not None or place == "boxed":
                answer = passage if answer is None else answer
                form = self.canonical(answer)
                return None if form is None else Reading(form, _spelling(answer))
        return None


def _spelling(answer: str) -> str:
    """An answer as it is written, without what stands around it."""
    text = _unwrap(" ".join(answer.translate(INVISIBLE).split()))
    whole = FONT.fullmatch(text) or YES_OR_NO.match(text)
    return whole[1] if whole else text


def _canonical(answer: str) -> str | None:
    if len(answer) > MAX_CHARS:
        return None
    for _ in range(MAX_ROUNDS):  # casefolding can undo NFKC and the reverse; both settle in a few rounds
        before, answer = answer, _fold(answer)
        if answer == before:
            return answer or None
    return None


cached_canonical = lru_cache(maxsize=1 << 14)(_canonical)
"""Voters on one question give few answers, many times each."""


def _fold(text: str) -> str:
    """Strip accents, articles, initials' stops, hyphens and punctuation; spell dates, times and numbers one way."""
    if SHORT_STATES.fullmatch(text):
        return "united states"
    if not text.isascii():
        text = VULGAR.sub(" ", RAISED.sub(lambda match: "^" + match[0], text))
        text = unicodedata.normalize("NFKC", text.translate(INVISIBLE))
    text = text.casefold().replace("⁄", "/")
    text = _unwrap(" ".join(text.split()))
    if whole := FONT.fullmatch(text):  # its content has no braces: no font is within
        text = _unwrap(whole[1])
    if verdict := YES_OR_NO.match(text):
        return verdict[1]
    text = WHEN.sub("", text)
    if moment := iso_date(text) or clock_time(text):
        return moment
    # What begins with a zero, is an ordinal or counts things is a name.
    bare = None if SYMBOL.match(text) else rational.plain(text)
    if bare is not None and (value := quantity.read(text)) and not ANY_LETTER.search(bare, value.end):
        return quantity.show(value).casefold()
    if not text.isascii():
        text = ACCENTED.sub(r"\1", unicodedata.normalize("NFD", text))
        text = unicodedata.normalize("NFC", text).translate(STROKES)
    text = APOSTROPHE.sub("", HYPHEN.sub(" ", text)).translate(QUOTES)
    text = INITIALS.sub(lambda match: match[0].translate(INITIALS_GAPS), text)
    text = COMMA.sub("", STOP.sub("", LIST_AND.sub("", text)))
    text = SPELLED.sub(lambda match: SPELLINGS[match[0]], text)
    text = _unwrap(" ".join(ARTICLE.sub("", text).split()))
    return SYNONYMS.get(text, text)


def _unwrap(text: str) -> str:
    """Strip the quotes, marks and dollars around a text."""
    bare = text.lstrip(LEADING).rstrip(TRAILING)
    while len(bare) > 1 and bare[0] == bare[-1] == "$":
        bare = bare[1:-1].lstrip(LEADING).rstrip(TRAILING)
    return bare


# Which words of a passage are the answer


SENTENCE_END = Pattern(r"[.!?]›(?:\s|\z)|[。！？\n]")
ABBREVIATION = Pattern(r"(?:\A|\W)(?:[A-Z]|St|Mt|Dr|Mr|Jr|Sr|vs|Mrs|Inc|etc)\z|\.[A-Za-z]\z")
APPOSITION = Pattern(
    rf"(?:,\s+|\s[-–—]+\s|\s\(|\s)(?:{words('reasons')}){END}"
    r"|,\s+(?:the|an?|and (?:it|he|she|they|this)|in|on)\s|\s[–—]\s|:\s|;\s|\s\(|['\"]\s?[,}]"
)
BESIDES = Pattern(r",\s+(?:the|an?)\s")
EMPHASIS = Pattern(r"\*\*([^*\n]{1,120})\*\*|__([^_\n]{1,120})__")
CODE_NAME = Pattern(r"[\w./-]*\w[._/(][\w./()-]+")
CODE = Pattern(r"`([^`\n]{1,120})`", needs="`")
DEFINITE = "the|la|el|le|les|los|il|lo|die|der|das|het|de|o|en"
ARTICLES = rf"(?:(?:{DEFINITE}|an?)\s+|l['’])"
POSSESSOR = r"[A-Z][\w.-]*(?: [A-Z][\w.-]*){0,3}['’]s?\s"
COPULAS = "is|was|are|were|es|fue|est|ist|war|è|é|foi|fu"
TELLING, DEED = words("telling"), words("deeds")
# Each is a sentence whose group is the answer; the first that matches counts.
NAMING = Pattern(
    r"(?i)(?:|.{0,149}?[^\w\n])(?:is|are|was|were|it['’]s)\s+(?:also\s+|often\s+)?"
    r"(?:called|known as|named|spelled|termed)\s+(.+)"
)
PASSIVE = Pattern(
    rf"(?i).{{1,150}}?\s(?:(?:was|were|is|are)\s+(?:first\s+)?(?:{words('deeds_done')})\s+by"
    r"|wurde(?:\s\d{4})?\s+von|(?:fue|ha sido|foi|fu|è stat[oa]|a été|est)\s+\w+\s+(?:por|par|da))\s+(.+?)"
    r"(?:\s(?:(?:in|around|during|at|en|em)\s.*|ge[a-zäöü]{3,12}|erfunden|entdeckt|komponiert))?"
)
DESCRIBED = Pattern(
    rf"(?is)(?:(?:{ARTICLES}|{POSSESSOR}|(?:its|his|her|their|my|our|this|that)\s)(?:|.{{0,149}}?\W)|it\W(?:|.{{0,148}}?\W))"
    rf"(?:{COPULAS})\s+(\S.*)"
)
PREPOSITION = Pattern(rf"{START}(?:through|by|from|with|in|into|at|of|on|for|to|up){END}")
PARTICIPLES = "known called named considered used made found written located given often mostly"
UNFINISHED = frozenset(PARTICIPLES.split())  # what a term is not
WRITTEN_IN = Pattern(
    r"(?i).{1,150}?\swritten\s(?:mostly |mainly )?in\s+(?:the\s+)?((?-i:[A-Z]).*?)(?:\s(?:programming )?language)?"
)
DESCRIBED_LAST = Pattern(rf"(?is){ARTICLES}.{{1,150}}\W(?:{COPULAS})\s+(\S.*)")
ENUMERATED = Pattern(r"[^:]{1,100}:\s+([^:=;0-9]{1,200})")
DEFINED = Pattern(rf"(?is)(.{{1,60}}?)\s+(?:(?:{COPULAS})\s+(?:(?:{DEFINITE})\s+|l['’])|(?:{DEED})\s)(.*)")
TRUTH = Pattern(r"(?i)(?:.{0,80}\s)?(?:statement|claim|assertion|it|this|that)\s+is\s+(not\s+)?(true|false)\W*")
SHORT_VERDICT = Pattern(r"(?i)(?:(?:so|therefore|thus|hence|then|in short)[,:\s]+|[,:\s]*)(yes|no)\W*")
UNSPACED = Pattern(
    r"[^。]{0,39}[^。不](?:是|叫)([^。，]{1,20})。?\n?\z|[^。]{1,40}は([^。、]{1,20}?)(?:です|だ|である)。?\n?\z"
    r"|[^.]{1,40}[는은] ([^.]{1,20}?)(?:입니다|이다|예요)\.?\n?\z"
    r"|[а-яёА-ЯЁ][^—–]{2,79}\s[—–]\s+(?:это\s)?([^—–.]{1,40})\.?\n?\z"
)
COPULA_END = Pattern(r"(?:です|である|だ|입니다|이다|예요|이에요)›\n?\z")
FILLER = Pattern(rf"(?i)(?:(?:{words('fillers')})\s+)+")
GREETING = Pattern(rf"(?i)(?:{words('greetings')})(?:\W|\z)|(?:to|i|we) \w")
VERB = Pattern(rf"(?i){START}(?:{COPULAS}|{DEED}|{TELLING}|{words('verbs')}|(?-i:são)){END}")
DOUBT = Pattern(rf"(?i)(?:{words('unsure')}|{words('doubts')}){END}|{words('unable')}\w")
NAME = r"[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*){0,5}"
ALTERNATIVES = Pattern(rf"{NAME} or (?:maybe |perhaps |possibly )?{NAME}\W{{0,3}}")
OF_SOMETHING = Pattern(r"(?i)the\s.{1,60}?\s(?:of|for|with|that|which|whose)\s")
BULLET = Pattern(r"\A(?:[-*•>]+\s+|[=-]>\s*|→\s*|\d{1,2}[.)]\s+›[A-Z])")
LABEL = Pattern(r"\A[A-Z][A-Za-z]*(?: [a-z]+)?:\s+›\S")
PRONOUN = Pattern(r"(?i)(?:it|this|that|there|he|she|they|here|what|which|one|these|those)\n?\z")
SUPERLATIVE = Pattern(rf"(?i)(?:\S+\s+)?(?:\w{{2,}}est|most|first|last|only|main|capital){END}")
ITEM_END = Pattern(r",\s+(?:and\s+)?|\s+and\s+")
TOLD = Pattern(rf"(?i)(?:\S+ ){{1,5}}?(?:{TELLING})\s+(?:in\s+)?(\S.*)")
TERMS = Pattern(rf"(?i)the (?:{words('terms')})\s")
VERDICT_WORD = Pattern(r"(?i)(?:yes|no)\s+\w")
NEGATED = Pattern(r"(?i)(?:not|no longer|never)\s")
LEADING_ARTICLE = Pattern(rf"(?i)\A{ARTICLES}")


def _stated(passage: str, *, whole: bool) -> str | None:
    """The answer after "the answer is": bold words, else the first sentence up to a reason or an apposition."""
    if YES_OR_NO.match(passage):
        return passage
    if whole and (described := _described(passage)):
        return described
    bold = passage.split("**")[0] if "**" in passage and not passage.startswith("**") else ""
    head = bold or next(_sentences(passage))
    if not whole and (reason := APPOSITION.search(head)) and reason.start():
        head = head[: reason.start()]
    head = COPULA_END.sub("", FILLER.sub("", head.strip(), count=1).strip())
    return head if head and len(head.split()) <= MAX_ANSWER_WORDS and not NEGATED.match(head) else None


def _sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without the stops that end them; one after "Dr" or an initial ends none."""
    start = 0
    for end in SENTENCE_END.finditer(text):
        index = end.start()
        if end[0] not in ".!?" or not ABBREVIATION.search(text[max(0, index - 4) : index]):
            yield text[start:index]
            start = end.end()
    yield text[start:]


def _concluded(line: str, first: str) -> str | None:
    """The last line, if it is short; else the first line, if that is; else what the last one names."""
    line = LABEL.sub("", BULLET.sub("", line))
    if line.startswith("{"):
        return None
    if verdict := SHORT_VERDICT.fullmatch(line) or YES_OR_NO.match(line) or YES_OR_NO.match(first):
        return verdict[1]
    if unspaced := UNSPACED.match(line):
        return str(next(filter(None, unspaced.groups())))
    bold = {stars or lines for stars, lines in EMPHASIS.findall(line)} or {*CODE.findall(line)}
    if len(bold) == 1 and not line.endswith(":**"):
        return str(bold.pop())
    if named := _described(line):
        return named
    opened = strip_openers(line)
    opened = opened if opened.strip(TRAILING) and not VERDICT_WORD.match(line) else line
    head = _stated(opened, whole=False)
    if head and (" (" in opened or BESIDES.match(opened, len(head))) and _is_bare(head):
        return head
    if _is_bare(opened):
        return opened
    if head and head != opened and _is_bare(head) and _is_named(head) and not GREETING.match(head):
        return head
    return first if first and _is_bare(first) and not GREETING.match(first) else None


def _is_bare(line: str) -> bool:
    """Whether it is a name or a phrase, not a sentence."""
    words = line.split()
    if len(words) > MAX_BARE_WORDS or line.endswith((":", "?")) or "=" in line:
        return False
    return len(words) == 1 or not VERB.search(line)


def _described(line: str) -> str | None:
    """The answer of a sentence that describes it ("The capital of France is Paris.")."""
    answers = (_named_in(sentence.strip()) for sentence in islice(_sentences(line), MAX_SENTENCES))
    return next(filter(None, answers), None)


def _named_in(sentence: str) -> str | None:
    if truth := TRUTH.fullmatch(sentence):
        return {"true": "false", "false": "true"}[truth[2].lower()] if truth[1] else truth[2]
    if (match := NAMING.fullmatch(sentence)) and (name := _stated(match[1], whole=False)) and len(name.split()) <= 3:
        return name
    if (match := PASSIVE.fullmatch(sentence)) and (name := _stated(match[1], whole=False)) and _is_named(name):
        return name
    if days := moments_in(sentence.lower()):
        if day := WEEKDAY_OF.fullmatch(sentence):
            return day[1]
        return days[-1] if len(set(days)) == 1 or sentence.lower().endswith(days[-1]) else None
    sentence = sentence if sentence[:4].lower() in ("it i", "it w", "this", "that") else strip_openers(sentence)
    for match in filter(None, (DESCRIBED.fullmatch(sentence), DESCRIBED_LAST.fullmatch(sentence))):
        answer = _stated(match[1], whole=False) or ""
        if 0 < len(ITEM_END.split(answer)[0].split()) <= MAX_BARE_WORDS and (
            _is_named(answer) or _is_term(answer, sentence)
        ):
            return answer
    if (match := WRITTEN_IN.fullmatch(sentence)) and len(match[1].split()) <= 2:
        return match[1]
    if match := TOLD.fullmatch(sentence):
        answer = LEADING_ARTICLE.sub("", _stated(match[1], whole=False) or "")
        words = " ".join(ITEM_END.split(answer)).split()
        alike = all(map(str.isalpha, words)) and not PREPOSITION.search(answer)
        if len(answer.split()) <= MAX_BARE_WORDS and (_is_named(answer) or alike):
            return answer
    if (match := ENUMERATED.fullmatch(sentence)) and len(ITEM_END.split(match[1])) > 1:
        return match[1]
    match = DEFINED.fullmatch(sentence)
    if match is None or len(match[1].split()) > MAX_BARE_WORDS or PRONOUN.match(match[1]):
        return None
    return match[1] if _is_named(match[1]) or SUPERLATIVE.match(match[2]) else None


def _is_named(answer: str) -> bool:
    """Whether it is a name, a number or a quotation: "in the north" is none."""
    bare = LEADING_ARTICLE.sub("", answer.strip())
    initial = bare[:1]
    if answer.lstrip()[:1] in LEADING or initial.isupper() or initial.isdigit() or initial > "\u02ff":
        return True
    return CODE_NAME.fullmatch(bare) is not None


def _is_term(answer: str, sentence: str) -> bool:
    """Whether it is the one word for something that the sentence describes: "The opposite of hot is cold.\""""
    term, *others = ITEM_END.split(LEADING_ARTICLE.sub("", answer))  # "red, green and blue"
    if term in UNFINISHED:
        return False
    if SUPERLATIVE.match(LEADING_ARTICLE.sub("", sentence)):
        return len(term.split()) <= 2
    if others:
        return all(len(item.split()) <= 3 for item in (term, *others))
    return term.isalpha() and (OF_SOMETHING.match(sentence) or TERMS.match(sentence)) is not None


# Dates


MAX_DATE_CHARS = 60
MONTHS = {name.lower(): number for names in (month_name, month_abbr) for number, name in enumerate(names) if name}
MONTHS |= {"sept": 9}
MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
DAY_OF_WEEK = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
WEEKDAY = rf"(?:(?:on )?{DAY_OF_WEEK},? )?"
DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
MONTH_FIRST = Pattern(rf"{WEEKDAY}({MONTH})\.? (?:the )?{DAY}(?:,? (?:of )?(\d{{4}}))?")
DAY_FIRST = Pattern(rf"{WEEKDAY}(?:the )?{DAY}(?: of)?[ -]({MONTH})\.?(?:,?[ -](\d{{4}}))?")
YEAR_FIRST = Pattern(r"(\d{4})([-/.])(\d{1,2})([-/.])(\d{1,2})")
FIGURES = Pattern(r"(\d{1,2})([/.-])(\d{1,2})([/.-])(\d{4})")
FULL = Pattern(
    rf"{START}(?:(?:{MONTH})\.? \d{{1,2}}(?:st|nd|rd|th)?,? \d{{4}}|\d{{1,2}}(?:st|nd|rd"
    rf"|th)?(?: of)? (?:{MONTH})\.?,? \d{{4}}|\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{1,2}}/\d{{1,2}}/\d{{4}}){END}"
)
TIMES = Pattern(
    r"(?:\A|\W)(?:at|is|=|by|around|until|to|about|approximately|exactly) [*_]*(\d{1,2}:\d\d(?: ?[ap]\.?m\.?)?"
    r"|\d{1,2} ?[ap]\.?m\.?)›(?:[^\w:%]|\z)"
)
WEEKDAY_OF = Pattern(rf"(?i).{{1,60}}\s(?:was|is|falls on|fell on|will be)(?: on)?(?: an?)? ({DAY_OF_WEEK})\W*")
WHEN = Pattern(
    r"\A(?:at|on|in|by|around) (?:the year )?›(?:half past|quarter|noon|midnight|\d{4}(?:\W|\z)"
    rf"|\d{{1,2}}(?::\d\d| ?[ap]\.?m)|{DAY_OF_WEEK}|(?:{MONTH}){END})"
)
PARTIAL = Pattern(r"--(\d\d)-(\d\d)")
LEAP_YEAR = 2000


def iso_date(text: str) -> str | None:
    """``2021-05-01`` or ``--05-01`` for a date in lower case, be it with its month's name or year first.

    Day and month in figures are never guessed, but for their zeros.

    >>> [iso_date(text) for text in ("may 1, 2021", "1st of may 2021", "2021-05-01", "may 1", "saturday, may 1, 2021")]
    ['2021-05-01', '2021-05-01', '2021-05-01', '--05-01', '2021-05-01']
    >>> iso_date("05/01/2021"), iso_date("5/1/2021"), iso_date("2/30/2021 or so")
    ('5/1/2021', '5/1/2021', None)
    """
    if len(text) > MAX_DATE_CHARS:
        return None
    if (match := YEAR_FIRST.fullmatch(text)) and match[2] == match[4]:
        year, month, day = match[1], int(match[3]), match[5]
    elif match := MONTH_FIRST.fullmatch(text):
        year, month, day = match[3], MONTHS[match[1]], match[2]
    elif match := DAY_FIRST.fullmatch(text):
        year, month, day = match[3], MONTHS[match[2]], match[1]
    elif (match := FIGURES.fullmatch(text)) and match[2] == match[4]:
        return f"{int(match[1])}/{int(match[3])}/{match[5]}"
    else:
        return text if PARTIAL.fullmatch(text) else None
    try:
        moment = date(int(year or 0) or LEAP_YEAR, month, int(day))
    except ValueError:  # there is no such day
        return None
    return moment.isoformat() if int(year or 0) else f"--{moment:%m-%d}"


def moments_in(text: str) -> list[str]:
    """The dates with day, month and year that stand in a text in lower case, as they are written; else its times.

    >>> moments_in("it was on july 20th, 1969, not on 04/26/1969"), moments_in("it opens at 8:30 a.m. today")
    (['july 20th, 1969', '04/26/1969'], ['8:30 a.m.'])
    """
    return [match[0] for match in FULL.finditer(text)] or TIMES.findall(text)


CLOCK = Pattern(r"(\d{1,2})(?:[:.](\d\d))?(?: ?([ap])\.? ?m\.?| uhr| o['’]?clock)?")
DATE_OR_TIME = Pattern(r"\d{1,2}:\d\d|--\d\d-\d\d|\d{4}-\d\d-\d\d|\d{1,2}/\d{1,2}/\d{4}")


def clock_time(text: str) -> str | None:
    """``15:00`` for a time of day in lower case; one that may be in the morning or not stays as it is, ``3:00``.

    >>> [clock_time(text) for text in ("3 pm", "3:00 p.m.", "15:00", "8:30 am", "08:30", "3:00", "12 am", "3", "3.5")]
    ['15:00', '15:00', '15:00', '08:30', '08:30', '3:00', '00:00', None, None]
    """
    match = None if len(text) > MAX_DATE_CHARS else CLOCK.fullmatch(text)
    if match is None:
        return NAMED_TIMES.get(text)
    figures, minutes, half = match[1], match[2] or "00", match[3]
    hour = int(figures)
    if text.replace(".", "").isdigit() or hour > 24 or int(minutes) > 59 or (half and not 1 <= hour <= 12):
        return None
    return f"{hour % 12 + 12 * (half == 'p'):02}:{minutes}" if half else f"{figures}:{minutes}"
