"""Free text: names, dates, short phrases. Equal after case, accents, articles, punctuation and spelling are folded.

``The Nile`` is ``nile``, ``São Paulo`` is ``sao paulo``, ``U.S.A.`` is ``united states``, ``two`` is ``2`` and ``May
1, 2021`` is ``2021-05-01``; ``05/01/2021`` stays as it is but for its zeros, since nobody can say which is the month.
Signs and symbols stay: ``-5``, ``C++`` and ``#1`` are answers, not noise. What is one answer by its meaning alone is
left to the ``judge`` type.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import ClassVar

from pets.answers import quantity
from pets.answers.base import AnswerType
from pets.answers.dates import iso_date
from pets.answers.final import places, strip_openers

__all__ = ["Text"]

MAX_CHARS = 10_000  # what is longer is no short text; sorting its accents alone could take the square of its length
MAX_ROUNDS = 10
MAX_BARE_WORDS = 5  # of a line that is an answer by itself
MAX_ANSWER_WORDS = 12

LEADING = " \t\"'`*_“”‘’«»¿¡"
TRAILING = LEADING + ".,;:!?。，！？、"
INVISIBLE = re.compile("[\u200b\u2060\ufeff]")
# NFKC alone would read 10² as 102 and 2½ as 21/2.
RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
VULGAR = re.compile("(?<=[0-9])(?=[¼-¾⅐-⅞])")
FONT = re.compile(r"\\(?:boxed|text|textbf|mathrm)\{([^{}]*)\}")
ACCENTED = re.compile("([a-z])[\u0300-\u036f]+")
STROKES = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "æ": "ae", "œ": "oe", "ı": "i"})

INITIALS = re.compile(r"\b[a-z](?:\. ?[a-z]){1,5}\b\.?|\b[a-z](?: [a-z]){1,5}\b(?=$| [a-z]{2})")
STOP = re.compile(r"(?<=[a-z])\.(?= )")
ARTICLE = re.compile(r"(?:the|an?) (?=\S)")
HYPHEN = re.compile(r"(?<=[a-z])[-‐‑–](?=[a-z])")
COMMA = re.compile(r"[,;](?= )")
APOSTROPHE = re.compile(r"(?<=[a-z])['’`](?=[a-z ]|$)")
QUOTES = re.compile(r"[\"“”«»]")
SPELLINGS = {"mt": "mount", "st": "saint", "ft": "fort", "dr": "doctor", "mr": "mister", "&": "and", "okay": "ok"}
SPELLED = re.compile(r"(?<!\S)(?:mt|st|ft|dr|mr|&)(?= [a-z])|(?<!\S)okay(?!\S)")
SYNONYMS = {
    "usa": "united states",
    "united states of america": "united states",
    "uk": "united kingdom",
    "great britain and northern ireland": "united kingdom",
}
SHORT_STATES = re.compile(r"(?:the )?U\.?S\.?\.?")
YES_OR_NO = re.compile(
    r"(yes|no|true|false)(?:\s*[,;:!—–]|\.(?=\s+[^\W\d])|\s+-\s|\s+(?:because|since|as|it|this|that|they|there)\b)",
    re.I,
)
FIGURES = re.compile(r"[-+]?[\d.,/]+")
SYMBOL = re.compile(r"0\d|.*\d(?:st|nd|rd|th)$")


@dataclass(frozen=True, slots=True)
class Text(AnswerType):
    """Short text, compared after folding.

    >>> Text().canonical(' “New  York.” '), Text().canonical("1 May 2021"), Text().canonical("...")
    ('new york', '2021-05-01', None)
    >>> Text().extract("The capital of France is Paris.\\n\\nLet me know if you need anything else!")
    'paris'
    """

    operator_only: ClassVar[bool] = False

    @property
    def instruction(self) -> str:
        """A few words."""
        return 'End with "The answer is ...", in a few words at most.'

    def canonical(self, answer: str) -> str | None:
        """In one spelling: folded, without article and punctuation; dates and numbers in their own."""
        if len(answer) > MAX_CHARS:
            return None
        for _ in range(MAX_ROUNDS):  # casefolding can undo NFKC and the reverse; both settle in a few rounds
            before, answer = answer, _fold(answer)
            if answer == before:
                return answer or None
        return None

    def extract(self, text: str) -> str | None:
        """What a box, a tag, a JSON field or the last statement says, else a short line, else what a sentence names."""
        passages = list(places(text))
        first = next((passage for place, passage in passages if place == "first"), "")
        for place, passage in passages:
            answer: str | None = None
            if place == "boxed":
                return self.canonical(passage)
            if place in ("cue", "marked"):
                answer = _stated(passage, whole=place == "marked")
            elif place == "line":
                answer = _concluded(passage, first)
            if answer is not None:
                return None if _is_doubtful(answer) else self.canonical(answer)
        return None


def _fold(text: str) -> str:
    if SHORT_STATES.fullmatch(text):
        return "united states"
    text = VULGAR.sub(" ", RAISED.sub(lambda match: "^" + match[0], text))
    text = unicodedata.normalize("NFKC", INVISIBLE.sub("", text)).casefold().replace("⁄", "/")
    text = _unwrap(" ".join(text.split()))
    if whole := FONT.fullmatch(text):  # its content has no braces: no font is within
        text = _unwrap(whole[1])
    if verdict := YES_OR_NO.match(text):
        return verdict[1]
    return iso_date(text) or _number(text) or _respelled(text)


def _number(text: str) -> str | None:
    """The number or quantity that a text is; what begins with a zero or is an ordinal is a name."""
    if SYMBOL.match(text):
        return None
    value = quantity.read(text)
    if value is None or (value.end and not _is_figures(text, value)):
        return None
    return quantity.show(value).casefold()


def _is_figures(text: str, value: quantity.Quantity) -> bool:
    """Whether nothing but the quantity is there: "42 apples" is no number."""
    return len(text.split()) <= 2 or not re.search(r"[a-z]{3}", text) or bool(value.unit) or not re.search(r"\d", text)


def _respelled(text: str) -> str:
    """Without accents, articles, initials' stops, hyphens and inner punctuation."""
    text = ACCENTED.sub(r"\1", unicodedata.normalize("NFD", text))
    text = unicodedata.normalize("NFC", text).translate(STROKES)
    text = QUOTES.sub("", APOSTROPHE.sub("", HYPHEN.sub(" ", text)))
    text = INITIALS.sub(lambda match: re.sub(r"[. ]", "", match[0]), text)
    text = COMMA.sub("", STOP.sub("", text))
    text = SPELLED.sub(lambda match: SPELLINGS[match[0]], text)
    if article := ARTICLE.match(text):
        text = text[article.end() :]
    text = _unwrap(" ".join(text.split()))
    return SYNONYMS.get(text, text)


def _unwrap(text: str) -> str:
    """Without quotes, marks and dollars around it, however many and in whatever order."""
    start, end = 0, len(text)
    while start < end:
        if text[start] in LEADING:
            start += 1
        elif text[end - 1] in TRAILING:
            end -= 1
        elif end - start > 1 and text[start] == text[end - 1] == "$":
            start, end = start + 1, end - 1
        else:
            break
    return text[start:end]


# Which words of a passage are the answer


SENTENCE = re.compile(
    r"(?<!\b[A-Z])(?<!\b(?:St|Mt|Dr|Mr|Jr|Sr|vs))(?<!\b(?:Mrs|Inc|etc))(?<!\.[A-Za-z])[.!?](?=\s|$)|[。！？\n]"
)
APPOSITION = re.compile(
    r"\s*(?:,\s+|\s[-–—]+\s|\s\(|\s)(?:because|since|which|who|where|whose|as (?:it|he|she|they|the)|located|known"
    r"|given|based"
    r"|according|due to|so that|although|though|however|but|not|making|with|weil|porque|parce|perché)\b"
    r"|,\s+(?:the|an?|and (?:it|he|she|they|this))\s|\s[–—]\s|:\s|;\s"
)
EMPHASIS = re.compile(r"\*\*([^*\n]{1,120})\*\*|__([^_\n]{1,120})__")
DESCRIBED = re.compile(
    r"(?:(?:the|its|his|her|their|my|our|this|that|la|el|le|les|los|il|lo|die|der|das|het|de|o|a|en)\s|l['’]"
    r"|it\b).{0,150}?"
    r"(?<!\w)(?:is|was|are|were|es|fue|est|ist|war|è|é|foi|fu)\s+(?:called\s+|named\s+|known as\s+)?([^\s].*)",
    re.I | re.DOTALL,
)
DEFINED = re.compile(
    r"(.{1,60}?)\s+(?:is|was|are|were|wrote|invented|discovered|painted|es|est|ist|è|é)\s+(?:the|a|an|la|el|le|die"
    r"|der|das|il|o)\s",
    re.I,
)
UNSPACED = re.compile(
    r"[^。]{1,30}[的][^。]{1,15}(?:是|叫)([^。，]{1,20})。?$|[^。]{1,30}の[^。]{1,15}は([^。、]{1,20}?)(?:です|だ|である)?。?$"
    r"|[^.]{1,30}의 [^.]{1,15}[는은] ([^.]{1,20}?)(?:입니다|이다|예요)?\.?$"
)
COPULA = re.compile(r"(?:です|である|だ|입니다|이다|예요|이에요)$")
FILLER = re.compile(
    r"(?:(?:definitely|probably|likely|most likely|clearly|simply|indeed|certainly|therefore|thus|actually|donc|also"
    r"|daher|in fact"
    r"|called|named|known as|either)\s+)+",
    re.I,
)
GREETING = re.compile(
    r"(?:sure|certainly|of course|absolutely|great|good|hello|hi|okay|ok|alright|let['’]s|let me|here|step|to |i "
    r"|we )\b",
    re.I,
)
VERB = re.compile(r"\b(?:is|are|was|were|has|have|had|does|do|did|can|will|would|i|we|you|let|think|know)\b", re.I)
DOUBT = re.compile(
    r"(?:not sure|unsure|uncertain|don['’]?t know|do not know|no idea|can(?:not|['’]t| not) (?:determine|say|tell"
    r"|answer|help|provide|be"
    r" determined)|unable to|it depends|not enough|insufficient|impossible to (?:say|tell|know)|sorry|as an ai|maybe"
    r"|perhaps|possibly"
    r"|might be|could be|either .* or|more (?:context|information)|could you|yes and no)\b",
    re.I,
)
ALTERNATIVES = re.compile(
    r"[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*)* or (?:maybe |perhaps |possibly )?[A-Z][\w'’.-]*(?: [A-Z][\w'’.-]*)*\W*"
)
OF_SOMETHING = re.compile(r"the\s.{1,60}?\s(?:of|for|to|that|in|between|from)\s", re.I)
SPEAKER = re.compile(r"^(?:A|Answer|Assistant|AI|Bot):\s+")
NEGATED = re.compile(r"(?:not|no longer|never)\s", re.I)


def _stated(passage: str, *, whole: bool) -> str | None:
    """What follows "the answer is": bold words, else its first sentence up to a reason or an apposition."""
    if YES_OR_NO.match(passage):
        return passage
    if whole and (described := _described(passage)):
        return described
    bold = passage.split("**")[0] if "**" in passage and not passage.startswith("**") else ""
    head = bold or SENTENCE.split(passage, maxsplit=1)[0]
    if not whole and (reason := APPOSITION.search(head)) and reason.start():
        head = head[: reason.start()]
    head = COPULA.sub("", FILLER.sub("", head.strip(), count=1).strip())
    return head if head and len(head.split()) <= MAX_ANSWER_WORDS and not NEGATED.match(head) else None


def _concluded(line: str, first: str) -> str | None:
    """What the last line is, if it is short; else the first line, if that is; else what the last one names."""
    line = SPEAKER.sub("", line)
    opened = strip_openers(line)
    opened = opened if opened.strip(TRAILING) else line
    if verdict := YES_OR_NO.match(line) or YES_OR_NO.match(first):
        return verdict[1]
    if unspaced := UNSPACED.match(line):
        return str(next(filter(None, unspaced.groups())))
    bold = {stars or lines for stars, lines in EMPHASIS.findall(line)}
    if len(bold) == 1 and not line.endswith(":**"):
        return str(bold.pop())
    if _is_bare(opened):
        return opened
    if first and _is_bare(first) and not GREETING.match(first):
        return first
    return _described(line)


def _is_bare(line: str) -> bool:
    """Whether it is a name or a phrase, not a sentence."""
    words = line.split()
    return len(words) <= MAX_BARE_WORDS and not (len(words) > 1 and VERB.search(line)) and not line.endswith((":", "?"))


def _described(line: str) -> str | None:
    """What a sentence says that something is ("The capital of France is Paris."), or that is said to be it."""
    sentence = next((part for part in SENTENCE.split(line) if part and part.strip()), "").strip()
    sentence = strip_openers(sentence) if not sentence[:4].lower().startswith(("it ", "this", "that")) else sentence
    if described := DESCRIBED.match(sentence):
        answer = _stated(described[1], whole=False) or ""
        if 0 < len(answer.split()) <= MAX_BARE_WORDS and (_is_named(answer) or _is_term(answer, sentence)):
            return answer
    if (defined := DEFINED.match(sentence)) and len(defined[1].split()) <= MAX_BARE_WORDS and _is_named(defined[1]):
        return defined[1]
    return None


def _is_named(answer: str) -> bool:
    """Whether it is a name, a number or a quotation: "in the north" is none."""
    if answer.lstrip()[:1] in LEADING:
        return True
    bare = re.sub(r"^(?:the|a|an)\s+", "", answer.strip(), flags=re.I)
    return bare[:1].isupper() or bare[:1].isdigit() or ord(bare[:1] or "a") > 0x2FF


def _is_term(answer: str, sentence: str) -> bool:
    """Whether it is the one word for something that the sentence describes: "The opposite of hot is cold.\""""
    return answer.isalpha() and OF_SOMETHING.match(sentence) is not None


def _is_doubtful(answer: str) -> bool:
    return DOUBT.search(answer) is not None or ALTERNATIVES.fullmatch(answer) is not None
