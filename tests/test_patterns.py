"""Patterns of RE2 that read as Python's do, and take linear time."""

import re
import sys
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.patterns import BLANK, END, LETTER, START, Pattern

PAIRS = [
    (r"\w+", r"\w+"),
    (r"\W\s", r"\W\s"),
    (r"[\d.,]*", r"[\d.,]*"),
    (r"(?i)(a+)|(é)", r"(?i)(a+)|(é)"),
    (BLANK + "+", r"[^\S\n]+"),
    (LETTER, r"[^\W\d_]"),
    (rf"{START}(?:is|ist|é){END}", r"(?<!\w)(?:is|ist|é)(?!\w)"),
    (rf",\s|{START}(?:is|a){END}", r",\s|(?<!\w)(?:is|a)(?!\w)"),
    (r"[.!?]‹\s*", r"(?<=[.!?])\s*"),
    (r"a*›b", r"a*(?=b)"),
]
texts = st.text(
    st.one_of(st.sampled_from("aaist né.,!? \n\t_A1٣\u2003中𝟙"), st.characters(categories=("L", "N", "Z", "P")))
)


@pytest.mark.parametrize(("pattern", "python"), PAIRS, ids=[python for _, python in PAIRS])
@given(text=texts, start=st.integers(0, 5))
def test_a_pattern_matches_what_pythons_own_does(pattern, python, text, start):
    if any(unicodedata.category(char) == "Cn" for char in text):
        return
    ours, theirs = Pattern(pattern), re.compile(python)
    start = min(start, len(text))
    assert [(match.span(), match.groups()) for match in ours.finditer(text, start)] == [
        (match.span(), match.groups()) for match in theirs.finditer(text, start)
    ]
    assert ours.sub("<>", text) == theirs.sub("<>", text) and ours.findall(text) == theirs.findall(text)
    found, expected = ours.search(text, start), theirs.search(text, start)
    assert (found and found.span()) == (expected and expected.span())


def test_the_classes_are_pythons():
    known = (char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) not in ("Cn", "Cs"))
    text = "".join(known)
    for letter in "dsw":
        ours, theirs = Pattern(rf"\{letter}+"), re.compile(rf"\{letter}+")
        assert "".join(match[0] for match in ours.finditer(text)) == "".join(theirs.findall(text))


def test_half_a_surrogate_pair_is_a_character_like_others():
    match = Pattern("b(.)c").search("a\ud800b\udfffc")
    assert match is not None and match.span() == (2, 5) and match[1] == "\udfff"


def test_what_a_pattern_needs_is_looked_for_first():
    assert Pattern("a|b", needs="b").findall("aa") == [] and Pattern("a|b", needs="b").findall("ab") == ["a", "b"]


@pytest.mark.parametrize("letter", ["a", "é"])
def test_many_matches_and_searches_from_many_places_take_linear_time(letter):
    pattern = Pattern(f"{letter}(x)")

    def seconds(size: int) -> float:
        best = float("inf")
        for _ in range(3):
            text = f"{letter}x " * size
            begun = time.process_time()
            matches = list(pattern.finditer(text))
            assert all(pattern.search(text, match.start()) for match in matches)
            best = min(best, time.process_time() - begun)
        return best

    small = seconds(2_000)
    assert seconds(16_000) < 3 * 8 * small
