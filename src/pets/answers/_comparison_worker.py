r"""The worker process that compares formulas.

It reads ``[verb, seconds, text, ...]``, one JSON line each, and writes ``[reply, processor seconds]`` back; the seconds
are null where they ran out. Run as a script by :mod:`pets.answers.comparison`, with that process's id; it imports
nothing of pets. math-verify parses and verifies; the fingerprint, structure and values to 300 digits at fixed points,
tells apart what its tolerances would not.

Importing all that takes a second, so the process that has done it answers nothing itself: it forks a child that does,
and another one when the kernel has ended that child for want of time.
"""

import ctypes
import gc
import hashlib
import json
import logging
import os
import signal
import sys
import time
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2
import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify
from sympy.core.relational import Relational

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

VALUE_DIGITS = 300
MAX_MEMORY_BYTES = 4 << 30
PR_SET_PDEATHSIG = 1
EVALUATION_POINTS = 3  # at which formulas with symbols are evaluated


def main() -> None:
    """Answer until the other end of the pipe is closed."""
    _die_with_parent(int(sys.argv[1]))
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    gc.freeze()  # so that children share it
    _write("ready", 0.0)
    if not hasattr(os, "fork"):
        _serve()
        return
    worker = os.getpid()
    while True:  # a child answers until it ends; another one follows it where that was for want of time
        child = os.fork()
        if child == 0:
            _die_with_parent(worker)
            _serve()
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGPROF:
            return
        _write(None, None)


def _serve() -> None:
    for line in sys.stdin:
        verb, seconds, *texts = json.loads(line)
        begun = time.process_time()
        _limit_cpu(seconds)
        try:
            reply = VERBS[verb](*texts)
        except Exception:  # noqa: BLE001 - whatever sympy trips over, the answer is "cannot say"
            reply = None
        _limit_cpu(0)
        _write(reply, time.process_time() - begun)


def _die_with_parent(parent: int) -> None:
    """Let the kernel end this process when its parent ends, in the middle of a computation too."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before that
            sys.exit()


def _limit_cpu(seconds: float) -> None:
    """Let the kernel end this process after that much processor time, in C code too; 0 lifts the limit."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # a parent that ignores it would have handed that down
        signal.setitimer(signal.ITIMER_PROF, seconds)


def fingerprint(text: str) -> str | None:
    """A digest of structure and values: equal ones have equal structure and agree to 300 digits."""
    return hashlib.sha256(_structure(_parse(text)).encode()).hexdigest()


def agree(first: str, second: str) -> str:
    """Whether math-verify takes each for the other: it is not symmetric."""
    a, b = _parse(first), _parse(second)
    both = verify(a, b, timeout_seconds=None) and verify(b, a, timeout_seconds=None)
    return "yes" if both else "no"


VERBS: dict[str, Callable[..., str | None]] = {"fingerprint": fingerprint, "agree": agree}


@lru_cache(maxsize=256)
def _parse(text: str) -> Any:
    """The formula in sympy: decimals as fractions, every comma a separator, ``i`` imaginary."""
    rules = NormalizationConfig(basic_latex=True, boxed="none")
    config = LatexExtractionConfig(boxed_match_priority=-1, normalization_config=rules)
    exact = re2.sub(r"([0-9]*)\.([0-9]+)", lambda m: rf"{{\frac{{{int(m[1] + m[2])}}}{{{10 ** len(m[2])}}}}}", text)
    latex = f"${exact.replace(',', ', ')}$"
    [expression] = parse(latex, [config], fallback_mode="no_fallback", parsing_timeout=None)
    imaginary = {symbol: sympy.I for symbol in expression.free_symbols if symbol.name == "i"}
    return expression.subs(imaginary) if imaginary else expression


def _structure(item: Any) -> str:
    """A parsed answer spelled out: containers by kind, formulas by value."""
    if isinstance(item, sympy.MatrixBase):
        return f"matrix{item.shape}{[_structure(entry) for entry in item.flat()]}"
    if isinstance(item, sympy.Interval):
        ends = [_structure(item.start), _structure(item.end)]
        # (2,4) may be a point or an interval; the parser decides by the values.
        return f"tuple{ends}" if item.is_open else f"interval{bool(item.left_open), bool(item.right_open)}{ends}"
    if isinstance(item, sympy.Tuple):
        return f"tuple{[_structure(part) for part in item.args]}"
    if isinstance(item, sympy.FiniteSet | sympy.Union):
        return f"{'set' if item.is_FiniteSet else 'union'}{sorted({_structure(part) for part in item.args})}"
    if isinstance(item, sympy.And):
        return f"and{sorted(_structure(part) for part in item.args)}"
    if isinstance(item, Relational):
        return _relation(item)
    if item in (sympy.oo, -sympy.oo, sympy.S.EmptySet):
        return str(item)
    values = [_value(item, point) for point in range(EVALUATION_POINTS if item.free_symbols else 1)]
    return str(values if len(set(values)) > 1 else values[0])  # sin^2+cos^2 is a constant


def _relation(relation: Any) -> str:
    """``lhs - rhs`` up to a factor, which is positive where the direction matters."""
    kind, difference = relation.rel_op, relation.lhs - relation.rhs
    if kind in ("<", "<="):
        kind, difference = kind.replace("<", ">"), -difference
    first = difference.subs(_points(difference, 0))
    if not first.is_real or first.evalf() == 0:
        raise ValueError(relation)
    scale = first if kind in ("==", "!=") else sympy.Abs(first)
    return f"{kind}{[_value(difference / scale, point) for point in range(EVALUATION_POINTS)]}"


def _value(expression: Any, point: int) -> str:
    """Real and imaginary part to 300 significant digits, the symbols replaced by fixed rationals."""
    exact = expression.subs(_points(expression, point)).doit()
    value = exact.evalf(VALUE_DIGITS + 20, maxn=VALUE_DIGITS + 200, strict=True)
    parts = value.as_real_imag()
    if not all(part.is_Number and part.is_finite for part in parts):
        raise ValueError(expression)
    return str([str(sympy.Float(part, VALUE_DIGITS)) if part != 0 else "0" for part in parts])


def _points(expression: Any, point: int) -> dict[Any, Any]:
    """A rational for each symbol, the same in every process; of both signs."""
    draws = {symbol: zlib.crc32(f"{point}:{symbol.name}".encode()) for symbol in expression.free_symbols}
    return {
        symbol: sympy.Rational(draw % 997 + 101, 97) * (-1 if point and draw & 1 << 20 else 1)
        for symbol, draw in draws.items()
    }


def _write(reply: str | None, seconds: float | None) -> None:
    sys.stdout.write(json.dumps([reply, seconds]) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
