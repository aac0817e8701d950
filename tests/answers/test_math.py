"""Which formulas are one answer, and above all which are not."""

import pytest

from pets.answers.math import Math, cached_canonical

EQUAL = [
    (r"\frac12", "0.5", "1/2", r"\dfrac{1}{2}", "0.50", r"\frac{2}{4}"),
    (r"(3,\frac{\pi}{2})", r"(3,\pi/2)", r"\left(3, \frac{\pi}{2}\right)", r"(3.0,0.5\pi)"),
    ("2^{99}", "2\\cdot2^{98}", "633825300114114700748351602688"),
    (r"\cotx", r"\frac{\cosx}{\sinx}"),
    (r"\binom{12}{6}", "924"),
    (r"28800", r"2\times5!\times5!", r"2\cdot5!\cdot5!=28800"),
    (r"2\sqrt{3}+1", r"1+2\sqrt{3}", r"1+\sqrt{12}"),
    (r"\frac{14}{1+\sqrt2}", r"14(\sqrt{2}-1)", r"14\sqrt{2}-14"),
    (r"\frac{\ln4}{\ln6}", r"\frac{2\ln2}{\ln2+\ln3}", r"\frac{2}{1+\log_23}", r"\log_{6}4"),
    (r"3+2\sqrt{2},3-2\sqrt{2}", r"3-2\sqrt{2},3+2\sqrt{2}", r"3\pm2\sqrt{2}", r"\{3-2\sqrt2,3+2\sqrt2\}"),
    (r"(-\infty,2)\cup(3,\infty)", r"(-\infty,2)\;\cup\;(3,\infty)", r"(3,\infty)\cup(-\infty,2)"),
    ("8n^2+4n+1", "(2n)^2+(2n+1)^2", "1+4n+8n^{2}"),
    (r"\frac{1}{137}+i", r"\frac{1+137i}{137}"),
    ("x<3", "3>x"),
    ("2x+3y=5", "4x+6y=10", "3y+2x=5"),
    ("East", r"\text{east}"),
    (r"1\frac{4}{5}", "1.8", r"\frac{9}{5}"),
    ("x=5", "5"),
    (r"15\text{ cm}^2", "15cm^2", "15"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1.0\\2\end{pmatrix}"),
]

DIFFERENT = [
    (r"\frac{1}{2^{99}}", r"\frac{1}{2^{100}}"),  # math-verify alone says equal
    (r"\sqrt{2}", "1.414214"),  # and here, to six digits
    ("0.333333", "1/3"),
    ("10^{100}", "10^{100}+1"),
    ("3R^2", "3r^2"),  # the parser lowers capitals
    ("abc", "cba"),
    ("Evelyn", "nylevE"),
    ("40_9", "40"),
    ("x=3", "y=3"),
    ("y=3", "3"),
    ("a=1,b=2", "b=1,a=2"),
    ("(1,-2)", "(-2,1)"),
    ("[1,2)", "[1,2]"),
    (r"x\le3", "x<3"),
    ("3 4", "7"),
    ("1,1,2", "1,2"),
    ("5m", "5"),
    ("5", "-5"),
    (r"\sqrt{x^2}", "x"),
    ("even", "odd"),
    (r"\foo5", r"\bar5"),
    ("12:30", "2/5"),
    (r"\infty", r"-\infty"),
    ("1/0", "2/0"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"),
]


@pytest.mark.parametrize("answers", EQUAL, ids=lambda answers: answers[0])
def test_equal_answers_are_one_class(answers):
    forms = [Math().canonical(answer) for answer in answers]
    assert set(Math().merge(forms).values()) == {forms[0]}, forms


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_answers_stay_apart(one, other):
    a, b = Math().canonical(one), Math().canonical(other)
    assert not Math().same(a, b) and not Math().same(b, a)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (r"Hence \boxed{\frac{1}{2}}.", "0.5"),
        (r"The answer is $\frac{\pi}{2}$. It follows.", r"\frac{\pi}{2}"),
        (r"The answer is \(2\sqrt 3\).", r"2\sqrt{3}"),
        ("The final answer is 2x+1. Done.", "2x+1"),
        (r"Thus we get $x = 4$ or rather $x = 5$", "5"),
        ("I do not know.", None),
        (r"\boxed{...}", None),
        ("42", "42"),
        ("", None),
    ],
)
def test_extract(text, form):
    assert Math().extract(text) == form


def test_hostile_answers_end_and_merge_with_nothing():
    hostile = [
        r"10^{10^{10}}",
        "1000000000!",
        "(" * 150 + "1" + ")" * 150,
    ]
    honest = ["1", r"\sqrt{2}", r"\frac{2}{\sqrt{2}}"]
    merged = Math(seconds=0.5).merge([*hostile, *honest])
    assert [merged[answer] for answer in hostile] == hostile
    assert Math(seconds=30).merge(honest)[r"\frac{2}{\sqrt{2}}"] == r"\sqrt{2}"  # and the next is answered


def test_long_strings_are_refused_before_the_time_is_up():
    for text in (
        "{" * 20_000,
        "\\" * 20_000,
        "x=" * 20_000,
        r"\frac" * 10_000,
        "$" * 20_000,
        " 1" * 20_000,
        r"\text{" * 5_000,
    ):
        assert Math().canonical(text) is Math().extract(text) is None


def test_long_answers_are_not_kept_in_memory():
    before = cached_canonical.cache_info().currsize
    for number in range(20):
        assert Math().canonical(f"x+{number}" + "+y" * 500)
    assert cached_canonical.cache_info().currsize == before
