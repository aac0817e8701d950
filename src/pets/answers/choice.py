r"""Multiple choice: one letter, however it is dressed.

``C``, ``(C)``, ``c.``, ``**C**``, ``\boxed{C}``, ``Answer: C`` and ``\text{(C)} Cold atoms`` are ``C``. A letter
within a word is no option, an article is none either, and two options ("A or B") are no answer. Sets of digits, as
crowds label with, are declared: ``choice:digits=0-1``.
"""

from dataclasses import dataclass

from pets.answers.base import AnswerType
from pets.answers.final import boxed, places, strip_openers
from pets.answers.phrases import words
from pets.errors import InputError
from pets.patterns import END, LETTER, START, Pattern

MAX_CHARS = 10_000  # what is longer is no option
MAX_LAYERS = 20  # of fonts, one around the other

WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {ord("【"): "(", ord("】"): ")", ord("。"): "."}
DRESS = Pattern(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname)\s*\{([^{}]*)\}", needs="\\")
MARKS = Pattern(r"\\[,;!: ()\[\]]|\\(?:left|right)›(?:[^a-zA-Z]|\z)|[$*_`{}\"“”«»]")
NUMBERED = Pattern(r"(?i)(?:question|q)?\s?\d{1,3}\s?[.):]\s+›[(\[]?[A-Z](?:\W|\z)|A:\s+›[(\[]?[A-Z][)\]]?\W*\z")
LEAD_WORDS = words("choice_leads")
# "a" leads where a letter alone follows: "a B".
LEAD = Pattern(rf"(?i)(?:(?:{LEAD_WORDS})[\s:=]+|选项|選項|选择|選擇|选|選)*(?:(?:{LEAD_WORDS}){END}|a\s›[A-Z]\W*\z)?")
JOIN = r"(?:,|/|&|\+|and\b|or\b|und\b|oder\b|y\b|o\b|et\b|ou\b|e\b|(?:и|или)\s|和|或|と|및)"
OPTION_LETTER = Pattern(
    r"[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])(?:\s*[)\]]|\s*\z|[.:,;!](?:\s|\z|[^\x00-\x{2fff}])|\s+[-–—(=]"
    r"|\s*[^\x00-\x{2fff}])"
)
SEVERAL = Pattern(
    r"(?:(?:both|either|between|neither)\s+)?(?:options?\s+)?[(\[]?[A-Za-z][)\]]?\s*"
    rf"(?:{JOIN}\s*(?:(?:and|or|maybe|possibly|perhaps)\s*)*(?:option\s+)?[(\[]?|(?:и|или)[(\[])"
    r"[A-Z][)\]]?(?:[^A-Za-z'’]|\z)"
)
# After "the answer is" a bare letter may run on; A and I need a word that no article or pronoun takes.
RUNNING = Pattern(
    r"([B-HJ-Z])\s+([a-zà-ÿ\d]\w*)|([AI])\s+(?:because|since|as|due|is|and not|rather|instead"
    r"|porque|weil|(?:da|car)(?:\W|\z)|\d)"
)
CONJUNCTIONS = ("and", "or", "und", "oder")
BECAUSE = Pattern(rf"([A-Z])\s+(?:because|since|porque|weil|parce){END}")
# In a sentence: a letter in brackets, after "option", or at the end of a clause after a word of choosing.
MENTION = Pattern(
    rf"[(\[]([A-Z])[)\]]|{START}(?:(?:[Oo]ption|[Cc]hoice|[Ll]etter|[Aa]lternativ[ae]|[Aa]nswer|[Aa]ntwort|[Rr]éponse"
    r"|[Rr]espuesta|[Rr]isposta|[Rr]esposta)\s+([A-Z])›(?:\W|\z)"
    r"|(?:leaves|leaving|making|makes)\s+([A-Z])\s+(?:as|the)›(?:\W|\z)"
    r"|(?:is|be|it['’]s|that['’]s|to|with|for|say|choose|select|pick|leaves|leaving|making|makes|only|just"
    r"|therefore|thus|hence|so),?\s+"
    r"([A-Z])›(?:[.!?;,]?\s*\z|[.!?;]))"
)
# A letter that ends a sentence after "is"; the group before it takes it back.
ENDING = Pattern(
    rf"{START}(?:(can['’]?t|cannot|not|couldn['’]t|must not|never|might|may|could|or)\s+(?:also\s+)?)?"
    r"(?:is|be|it['’]s|that['’]s)\s+[(\[]?([A-Z])[)\]]?[.!]?\s*\z"
)
DOUBT = Pattern(rf"(?i){START}(?:{words('choice_doubts')}){END}")
SENTENCE = Pattern(r"[.!?]‹\s+")
LISTED = Pattern(r"(?m)^[ \t>*_-]{0,20}(?:[Oo]ption\s|[Cc]hoice\s)?[(\[]?([A-Z])[)\].:]\s")
BARE = Pattern(r"[(\[]?\s*([A-Za-z])\s*[)\]]?[.!]?")

# A digit stands alone: what follows it would be more of a number, or a list.
DIGIT = Pattern(rf"(?s)([0-9])\s*[.)\]]?|[(\[]\s*([0-9])\s*[)\]]\.?|([0-9])[.):]\s+(?:{LETTER}|_).*")
RANGE = Pattern(r"([0-9])-([0-9])")


@dataclass(frozen=True, slots=True)
class Choice(AnswerType):
    """One letter of a closed set. ``options`` is how many letters there are, from A; ``None`` takes any letter.

    ``digits`` declares digits in their place, "0-1" or "1-5": then a digit of that range is the answer, if it stands
    alone, and no letter is one.

    >>> Choice().canonical("c."), Choice(options=4).canonical("(E)"), Choice().canonical("Cold")
    ('C', None, None)
    >>> crowd = Choice(digits="0-1")
    >>> crowd.canonical("(1)"), crowd.canonical("2"), crowd.canonical("1.5"), crowd.canonical("A")
    ('1', None, None, None)
    """

    operator_only = False
    reads_at_once = True
    client_options = frozenset({"options", "digits"})

    options: int | None = None
    digits: str | None = None

    def __post_init__(self) -> None:
        if self.options is not None and not 1 <= self.options <= 26:
            raise InputError(f"a choice has 1 to 26 options, A to Z; got options={self.options}.")
        if self.digits is None:
            return
        ends = RANGE.fullmatch(self.digits)
        if ends is None or ends[1] >= ends[2]:
            raise InputError(f'digits are a range such as "0-1" or "1-5"; got {self.digits!r}.')
        if self.options is not None:
            raise InputError(f"digits={self.digits} says how many options there are; leave options={self.options} out.")

    @property
    def instruction(self) -> str:
        if self.digits is None:
            return 'End with "The answer is (X).", where X is the letter of your choice.'
        return f'End with "The answer is N.", where N is {self.digits[0]} to {self.digits[-1]}.'

    def canonical(self, answer: str) -> str | None:
        """The option that the string starts with; where digits are declared, the digit that it is."""
        if len(answer) > MAX_CHARS:
            return None
        bare = _without_markup(answer)
        if self.digits is not None:
            alone = DIGIT.fullmatch(bare)
            digit = (alone[1] or alone[2] or alone[3]) if alone else ""
            return digit if self.digits[0] <= digit <= self.digits[-1] else None
        if SEVERAL.match(bare):
            return None
        letter = OPTION_LETTER.match(bare)
        return self._within(letter[1] or letter[2]) if letter else None

    def extract(self, text: str) -> str | None:
        """The option in a box, a tag or a JSON field, else of the last statement, else of a line."""
        passages = places(text)
        for place, passage in passages:
            bare = _without_markup(passage)
            if place in ("boxed", "marked", "cue"):
                if self.digits is None and SEVERAL.match(bare):
                    return None
                option = self.canonical(passage) or self.canonical(strip_openers(bare))
                running = None if option or self.digits else RUNNING.match(_without_markup(strip_openers(bare)))
                if running and running[2] not in CONJUNCTIONS:  # a letter that the sentence runs on from
                    option = self._within(running[1] or running[3])
            elif place == "line":
                option, first = self._concluded(bare, text), next((other for _, other in passages), "")
                opposed = (
                    option and BARE.fullmatch(_without_markup(first)) and self.canonical(first) not in (None, option)
                )
                return None if opposed else option or self._first(first, text)
            else:
                option = self._first(passage, text)
            if option is not None:
                return option
        return None

    def _first(self, line: str, text: str) -> str | None:
        """The option of a first line, unless that begins a list of them."""
        listed = set(LISTED.findall(text[-MAX_CHARS:]))
        return self.canonical(line) if BARE.fullmatch(_without_markup(line)) or len(listed) < 2 else None

    def _concluded(self, bare: str, text: str) -> str | None:
        """The option of a last line: alone, after "therefore", or the only one that its last sentence names."""
        opened = _without_markup(strip_openers(bare))
        if self.digits is not None:
            return self.canonical(opened)
        if SEVERAL.match(opened):
            return None
        because = BECAUSE.match(opened)
        if option := self._within(because[1]) if because else self.canonical(opened):
            listed = LISTED.findall(text[-MAX_CHARS:])  # which may be the question's options
            return option if len(listed) < 2 or BARE.fullmatch(opened) or listed.count(option) > 1 else None
        sentence = SENTENCE.split(bare)[-1]
        if last := BARE.fullmatch(_without_markup(strip_openers(sentence))):
            return self._within(last[1])
        if (ending := ENDING.search(sentence)) and not ending[1]:
            return self._within(ending[2])
        letters = {next(filter(None, groups)) for groups in MENTION.findall(sentence)}
        return self._within(letters.pop()) if len(letters) == 1 and not DOUBT.search(sentence) else None

    def _within(self, letter: str) -> str | None:
        option = letter.upper()
        return option if self.options is None or ord(option) - ord("A") < self.options else None


def _without_markup(answer: str) -> str:
    """Strip box, fonts, math and Markdown marks, and "the answer is"."""
    bare = boxed(answer) or answer
    for _ in range(MAX_LAYERS):
        bare, before = DRESS.sub(r"\1", bare), bare
        if bare == before:
            break
    bare = MARKS.sub("", bare.translate(WIDE)).strip(" '‘’\t\n.,:;")
    number = NUMBERED.match(bare)
    bare = bare[number.end() :] if number else bare
    lead = LEAD.match(bare)
    return bare[lead.end() :].strip() if lead and lead.end() else bare
