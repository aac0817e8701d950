"""Whatever a model says is read in time linear in its length, without an error, into a canonical form."""

import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pets import answers
from pets.answers import text as text_answers
from pets.answers.final import MAX_PASSAGE_CHARS, places
from pets.answers.math import Math, cached_canonical
from pets.patterns import Pattern
from pets.registry import answer_types, make_answer_type

NAMED = {"regex": r"regex:(?:answer is|Answer:)?\s*(\S.*)?\s*$", "python": "python:textwrap:dedent"}
"""Types that need an option, with one; dedent, since all that is asked of a function is to come back."""
TYPES = [NAMED.get(name, name) for name in sorted(answer_types())]
SPECS = [*TYPES, "choice:options=4", "choice:digits=0-5", "json:field=a", r"regex:\w+", "regex:a.*b|a"]

BLANKS = " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u2009\u2028\u3000"
UNITS = [
    *BLANKS,
    " \n", "\n ", "\r\n", "$", "$$", "\\", "\\\\", "{", "}", "{}", "}{", "(", ")", "()", "[", "\\(", "\\)", "\\[",
    "\\(\\)", "1", "0", "9,", ",000", " 000", "1.", ".", "...", ",", ";", ":", "-", "−", "+", "^", "^ ", "^{", "_",
    "_{", "*", "**", "`", "```\n", "~", "%", "\\%", "°", "\\circ", "^\\circ ", "^ {", "=", "1=", "x=", "\\approx",
    "/", "1/", "e", "1e", "a", "A ", "A, ", "(A)", "and ", "or ", "is ", "the ", "answer", "answer ", "answer is ",
    "Answer: ", "option ", "option is ", "####", "\n####", "\n ####", "#### 1\n", "\\boxed{", "\\boxed{}",
    "\\boxed{1}", "\\boxed{ ", "\\boxed ", "\\fbox{", "\\text{", "\\text{}", "\\text", "\\text ", "\\textbf{",
    "\\mathrm{a}", "\\frac", "\\frac{", "\\frac{1}", "\\frac1", "\\sqrt", "\\sqrt ", "sqrt(", "\\left(", "\\!", "\\,",
    "\\quad", "\\begin", "\\in", "\\alpha", "\\aaaa", "<think>", "</think>", "\"", "'", "“", "½", "²", "é", "ẹ́",
    "̣́", "ﬁ", "ſ", "\u200b", "\uffff", "𝟙", "\ud800", "\x00", "cm ", "1 m ", "m/s ", "kg^2", "th", "1 ", "$1$ ",
    "$\"", "\"$", "!", "?", "i", "x,", "xy ", "(x)=", "\nThe answer is ", "Answer: 1\n", "<think>\n</think>",
    "```\n1\n```\n", "\\text{\\boxed{", "$\\frac{1}{2}$, ", "1 000,", "x^2+", "\\\\ ", "&", "\\%\\$",
]  # fmt: skip
FRAMES = {
    "bare": "{}",
    "boxed": r"\boxed{{{}}}",
    "boxed between ones": r"\boxed{{1{}1}}",
    "after a cue": "The answer is {}",
    "before a cue": "{}The answer is 7",
    "in a line": "It is 7{}7 so",
    "around a caret": r"\boxed{{1{0}^{0}x}}",
    "both ends": "{0}x{0}",
}
NESTED = {
    "fonts": (r"\text{", "1", "}"), "bold fonts": (r"\textbf{", "C", "}"), "boxes": (r"\boxed{", "1", "}"),
    "dollars": ("$", "x", "$"), "quoted dollars": ("\"$", "x", "$\""), "blank dollars": ("$ ", "x", " $"),
    "braces": ("{", "1", "}"), "fractions": (r"\frac{1}{", "2", "}"), "powers": ("x^{", "2", "}"),
    "roots": (r"\sqrt{", "2", "}"), "parentheses": ("(", "C", ")"), "stars": ("*", "C", "*"), "blanks": (" ", "1", " "),
    "fonts of blanks": (r"\text { ", "1", " }"), "mixed": (r"$\text{*", "1", "*}$"),
}  # fmt: skip


def framed(frame: str, unit: str) -> Callable[[int], str]:
    slots = frame.count("{}") + frame.count("{0}")
    return lambda size: frame.format(unit * ((size - len(frame)) // slots // len(unit)))


def nested(left: str, middle: str, right: str, frame: str = "{}") -> Callable[[int], str]:
    def text(size: int) -> str:
        layers = (size - 20) // len(left + right)
        return frame.format(left * layers + middle + right * layers)

    return text


SHAPES = (
    {f"{name} {unit!r}": framed(frame, unit) for name, frame in FRAMES.items() for unit in UNITS}
    | {f"nested {name}": nested(*parts) for name, parts in NESTED.items()}
    | {f"nested {name}, in a box": nested(*parts, r"\boxed{{{}}}") for name, parts in NESTED.items()}
    | {f"unclosed {name}": nested(left, "", "") for name, (left, _, _) in NESTED.items()}
)
"""Each makes a text of about so many characters."""


def processor_seconds(spec: str, text: str, repeats: int) -> float:
    answer_type, best = make_answer_type(spec), float("inf")
    for _ in range(repeats):
        cached_canonical.cache_clear()
        text_answers.cached_canonical.cache_clear()
        begun = time.process_time()
        answer_type.extract(text)
        answer_type.canonical(text)
        best = min(best, time.process_time() - begun)
    return best


def too_slow(spec: str, small: str, large: str) -> str:
    """What is wrong where a byte of the large text costs more than twice one of the small one.

    What takes no time is taken for a millisecond (a box that is cut off at its beginning is read in another way than
    a short one), and what looks slow is measured again: a busy machine is no matter.
    """
    for repeats in (1, 3, 9):
        limit = 2 * len(large) / len(small) * max(processor_seconds(spec, small, repeats), 0.001)
        seconds = processor_seconds(spec, large, repeats)
        if seconds <= limit:
            return ""
    return f"{len(large)} characters took {seconds:.4f} s, more than {limit:.4f} s"


def check_linear(spec: str, shapes: Iterable[str], small: int, large: int) -> None:
    slow = {shape: too_slow(spec, SHAPES[shape](small), SHAPES[shape](large)) for shape in shapes}
    assert len(slow) >= 60
    assert {shape: reason for shape, reason in slow.items() if reason} == {}


@pytest.mark.parametrize("spec", TYPES)
def test_passages_are_read_in_linear_time(spec):
    """Up to the longest box that counts: beyond, less is read. An eighth of the shapes, others for each type."""
    frames = ("boxed between ones", "around a caret", "after a cue", "nested", "unclosed")
    shapes = [shape for shape in SHAPES if shape.startswith(frames)]
    check_linear(spec, shapes[TYPES.index(spec) % 8 :: 8], 500, MAX_PASSAGE_CHARS - 10)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [100_000, 1_000_000])
@pytest.mark.parametrize("spec", TYPES)
def test_long_texts_are_read_in_linear_time(spec, size):
    """A hundred of the shapes, others for each type: all of them take an hour."""
    step = len(SHAPES) // 100
    check_linear(spec, list(SHAPES)[TYPES.index(spec) % step :: step], 10_000, size)


def known_patterns(item: object) -> Iterator[Pattern]:
    """The patterns of a module's value: itself, or those within a list or tuple."""
    if isinstance(item, Pattern):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from known_patterns(part)


def phrases() -> list[str]:
    """Every word and command that a pattern of the answer types knows, each with what follows it there."""
    names = [name for _, name, _ in pkgutil.iter_modules(answers.__path__) if not name.startswith("_")]
    modules = [importlib.import_module(f"pets.answers.{name}") for name in names]
    patterns = {
        found.pattern for module in modules for value in vars(module).values() for found in known_patterns(value)
    }
    assert len(patterns) > 150
    escapes = re.compile(r"\\[px]\{.*?\}|\(\?\w+\)|\(\?:|(?<!\\)\\[A-Za-z]\+?|\[.*?\]")
    words = [re.findall(r"\\\\[a-z]+|[^\W\d_]+", escapes.sub(" ", pattern)) for pattern in patterns]
    return sorted({word.replace("\\\\", "\\") for group in words for word in group})


PHRASES = phrases()
GROWN = {
    "repeated": lambda word, other, size: f"{word} " * (size // (len(word) + 1)) + "1",
    "mixed": lambda word, other, size: f"{word} {other} " * (size // (len(word + other) + 2)) + "1",
    "with blanks": lambda word, other, size: f"{word} {other}" + " " * size + "1",
    "unspaced": lambda word, other, size: word * (size // len(word)) + "1",
    "nested": lambda word, other, size: f"{word} (" * (size // (len(word) + 2)) + other,
}
"""Texts made of a phrase and another, that almost match again and again."""
FRAMES_OF_PHRASES = ("The answer is {}", "It {} is the answer", "{}")


def check_phrases(spec: str, cases: Iterable[tuple[str, str, str, str]]) -> None:
    """Within the longest passage, and beyond it, where less of a text is read."""
    slow = {}
    for word, other, grown, frame in cases:
        for sizes in ((500, MAX_PASSAGE_CHARS - 100), (4_000, 16_000)):
            small, large = (frame.format(GROWN[grown](word, other, size)) for size in sizes)
            slow[word, other, grown, frame, sizes] = too_slow(spec, small, large)
    assert len(slow) >= 150
    assert {case: reason for case, reason in slow.items() if reason} == {}


def cases_of_phrases() -> list[tuple[str, str, str, str]]:
    others = [*PHRASES[7:], *PHRASES[:7]]
    pairs = list(zip(PHRASES, others, strict=True))
    return [(*pair, grown, frame) for grown in GROWN for frame in FRAMES_OF_PHRASES for pair in pairs]


@pytest.mark.parametrize("spec", TYPES)
def test_phrases_of_the_patterns_are_read_in_linear_time(spec):
    """Some of them, others for each type; the words are the patterns' own, so that new ones are among them."""
    check_phrases(spec, cases_of_phrases()[TYPES.index(spec) :: 400])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("spec", TYPES)
def test_more_phrases_of_the_patterns_are_read_in_linear_time(spec):
    """A twelfth of all: 2,200 texts in two pairs of sizes."""
    check_phrases(spec, cases_of_phrases()[TYPES.index(spec) :: 12])


@pytest.mark.parametrize("spec", TYPES)
@pytest.mark.parametrize(
    "grow",
    [
        lambda size: "The answer is" + " correct" * (size // 8) + "1",
        lambda size: "The answer is" + " best" * (size // 5),
        lambda size: "B is" + " the correct" * (size // 12) + "1",
        lambda size: "option which" + " " * size,
        lambda size: "answer" + " " * size + "x",
        lambda size: "most likely " * (size // 12) + "1",
    ],
    ids=["correct", "best", "the correct", "which and blanks", "answer and blanks", "most likely"],
)
def test_texts_that_once_took_the_square_or_the_power_of_their_length(spec, grow):
    assert too_slow(spec, grow(4_000), grow(16_000)) == ""


@pytest.mark.parametrize("spec", SPECS)
def test_every_shape_is_read_into_a_canonical_form(spec):
    """An eighth of the shapes, others for each type."""
    answer_type = make_answer_type(spec)
    for shape in list(SHAPES)[SPECS.index(spec) % 8 :: 8]:
        text = SHAPES[shape]
        for size in (60, 400):
            for form in (answer_type.canonical(text(size)), answer_type.extract(text(size))):
                assert form is None or (form and answer_type.canonical(form) == form), (shape, size)


repeated = st.builds(str.__mul__, st.sampled_from(UNITS), st.sampled_from([1, 2, 3, 30, 300]))
hostile = st.lists(st.one_of(st.text(max_size=10), repeated), max_size=8).map("".join)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=40)
@given(text=hostile)
def test_any_text_is_read_into_a_canonical_form(spec, text):
    answer_type = make_answer_type(spec)
    for form in (answer_type.canonical(text), answer_type.extract(text)):
        assert form is None or (form and answer_type.canonical(form) == form)


@given(hostile)
def test_passages_are_short(text):
    assert all(0 < len(passage) <= MAX_PASSAGE_CHARS for _, passage in places(text))


def test_a_box_that_is_too_long_is_no_answer_and_decides_alone():
    assert list(places(rf"\boxed{{1}} \boxed{{{'1' * (MAX_PASSAGE_CHARS + 1)}}}. The answer is 7")) == []
    assert Math().extract(rf"\boxed{{{'x' * (MAX_PASSAGE_CHARS + 1)}}}") is None
