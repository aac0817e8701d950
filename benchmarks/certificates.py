"""Are certificates calibrated? GPQA and MATH500 pools, 30 repetitions, okg and uniform at mean budgets 4, 8 and 16.

Each question's certificate for B = the traces drawn, under the prior that the batch itself taught, against whether
its leader is the vote of all traces drawn. ``python -m benchmarks.certificates [POOLDIR] [REPETITIONS]``
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from benchmarks._pools import recorded
from pets.pools import read_pool
from pets.replay.calibration import Calibration, Certified, calibrate, certify
from pets.replay.config import ReplayConfig
from pets.replay.labelled import read_answers

GROUPS = ("gpqa", "math500")
HEAD = f"{'':34}{'n':>8}{'mean':>8}{'right':>8}{'ECE':>8}{'Brier':>8}{'const.':>8}{'share':>8}"


def line(name: str, found: Calibration) -> str:
    scores = (found.certificate, found.right, found.error, found.brier, found.brier_constant, found.brier_share)
    return f"{name:34}{found.count:8}" + "".join(f"{score:8.4f}" for score in scores)


def parts(found: list[Certified]) -> dict[str, list[Certified]]:
    """A group's certificates, pool by pool, then by policy and budget."""
    names: list[Callable[[Certified], str]] = [lambda one: one.pool, lambda one: f"{one.policy} at {one.budget:g}"]
    sets: dict[str, list[Certified]] = {}
    for name in names:
        for one in found:
            sets.setdefault(name(one), []).append(one)
    return sets


def diagram(found: Calibration) -> str:
    rows = [f"  {'certificates':14}{'count':>9}{'mean':>8}{'right':>8}"]
    for one in found.bins:
        means = "" if one.certificate is None or one.right is None else f"{one.certificate:8.3f}{one.right:8.3f}"
        rows.append(f"  {one.low:.1f} to {one.high:.1f}    {one.count:9}{means}")
    return "\n".join(rows)


def main() -> None:
    print(__doc__)
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    groups: dict[str, list[Certified]] = {group: [] for group in GROUPS}
    for file in recorded(folder):
        group = file.name.partition(".")[0]
        if group in groups:
            groups[group] += certify(read_answers(read_pool(file)), config=ReplayConfig(repetitions))
    groups = {group: found for group, found in groups.items() if found}
    if not groups:
        print(json.dumps({"benchmark": "certificates", "skipped": "no recorded GPQA or MATH500 pools"}))
        return
    groups["together"] = [one for found in groups.values() for one in found]
    figures = {}
    for group, found in groups.items():
        pooled = calibrate(found)
        figures[group] = asdict(pooled)
        print(HEAD, line(f"{group}, pooled", pooled), sep="\n")
        if group != "together":
            print(*(line(f"  {name}", calibrate(some)) for name, some in parts(found).items()), sep="\n")
        print(diagram(pooled), end="\n\n")
    print(json.dumps({"benchmark": "certificates", "repetitions": repetitions, "groups": figures}))


if __name__ == "__main__":
    main()
