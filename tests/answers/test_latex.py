"""Rewriting: strings that models and recorders wrote, and what they come to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pets.answers.latex import comparable, normalize, word


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac{\pi}{2})"),
        (r"(3,\\frac{\pi}{2})", r"(3,\frac{\pi}{2})"),
        (r"\dfrac{\sqrt3}{2}", r"\frac{\sqrt{3}}{2}"),
        (r"\displaystyle\frac{2\ln2}{\ln6}", r"\frac{2\ln2}{\ln6}"),
        (r"\displaystyleL=2\sqrt{3}", r"2\sqrt{3}"),
        (r"\cotx", r"\cot x"),
        (r"\frac{\cosx}{\sinx}", r"\frac{\cos x}{\sin x}"),
        (r"1+\log_23", r"1+\log_{2}3"),
        ("x^5-x^4+1", "x^{5}-x^{4}+1"),
        (r"x^5-x^4+\,1", "x^{5}-x^{4}+1"),
        (r"(-\infty,2)\\cup\(3,\infty)", r"(-\infty,2)\cup(3,\infty)"),
        (r"(-\infty,2)\;\cup\;(3,\infty)", r"(-\infty,2)\cup(3,\infty)"),
        (r"(-2,\1)", "(-2,1)"),
        ("12\\", "12"),
        ("40_9", "40_{9}"),
        ("(3/5,8/3]", r"(\frac{3}{5},\frac{8}{3}]"),
        ("1/2x", "1/2x"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"\textbf{(B)}", "B"),
        (r"5\text{ and }6", "5,6"),
        (r"2\pi\text{ cm}^2", r"2\pi\text{ cm}^2".replace(r"\text{ cm}^2", " cm^{2}")),
        (r"(2+\sqrt{3})\text{ cm}^2", r"(2+\sqrt{3})"),
        (r"x=3,x=5,x=7", "3,5,7"),
        ("a=1,b=2", "a=1,b=2"),
        ("(a,b,c,d)=(1,-16,-4,43)", "(1,-16,-4,43)"),
        ("(b,a)=(1,2)", "(b,a)=(1,2)"),
        ("DE=\\sqrt{51}", r"\sqrt{51}"),
        ("y=3", "y=3"),
        ("x=3", "3"),
        ("r(x)=-13x+3", "-13x+3"),
        (r"x\in(-\infty,3)", r"(-\infty,3)"),
        (r"x \lt 3", r"(-\infty,3)"),
        (r"0 \lt x \lt 1", "(0,1)"),
        ("x >= 2", r"[2,\infty)"),
        ("1>=x", r"(-\infty,1]"),
        ("0<x>1", "0<x>1"),
        ("x^2+y^2=1", "x^{2}+y^{2}=1"),
        (r"2\cdot5!\cdot5!=2\cdot120\cdot120=28800", "28800"),
        (r"35(\frac{1}{5})^4\approx0.056", r"35(\frac{1}{5})^{4}"),
        (r"2\pi.", r"2\pi"),
        ("**x+1**", "x+1"),
        ("2π", r"2\pi"),
        ("√3", r"\sqrt{3}"),
        ("sqrt(2)/2", r"\sqrt{2}/2"),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        (r"\sin 30^\circ", r"\sin30^{\circ}"),
        (r"(30^\circ, 60^\circ)", "(30,60)"),
        ("Infinitely many", "Infinitely many"),
        ("...", ""),
        ("", ""),
        (r"\boxed{}", ""),
    ],
)
def test_normalize(answer, form):
    assert normalize(answer).replace(r"^\circ", r"^{\circ}") == form


@given(st.text(r"\{}()[]^_,=+-*/ .$%xyabAB0123456789", max_size=25))
def test_normalizing_twice_changes_nothing(text):
    assert normalize(normalize(text)) == normalize(text)


PIECES = r"\frac \sqrt \pi \text \left( \right) \, { } ( ) 1 23 x y = , ^ _ \approx \in \cotx \\ . $ \boxed{ % \begin &"


@given(st.lists(st.sampled_from([*PIECES.split(), " "]), max_size=14).map("".join))
def test_normalizing_twice_changes_nothing_in_broken_latex(text):
    assert normalize(normalize(text)) == normalize(text)


def test_words_are_compared_by_their_letters():
    assert word("East") == word("east") == "east"
    assert word("ABC") != word("abc") and word("Infinitely many") == word("Infinitelymany")
    assert word("x^{2}") is None and word("") is None and word("R") != word("r")


@pytest.mark.parametrize("doubtful", ["40_{9}", "3 4", "1.2.3", "1/2x", r"\foo{1}", "15apples", r"\sqrt12", "x" * 401])
def test_what_is_doubtful_is_not_compared(doubtful):
    assert not comparable(doubtful)
