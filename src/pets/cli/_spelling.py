"""Words that are no longer, or were never, part of the command line: each is answered with the one to type instead.

A former spelling prints its successor and exits 2; nothing of the line is run.
"""

import difflib
import shlex
from collections.abc import Mapping, Sequence

import click

COMMANDS: Mapping[str, str] = {
    "batch cancel": "runs cancel ...",
    "batch read": "resume RUN --replies FILE",
    "batch write": "solve QUESTIONS --model NAME --batch-api --to FILE",
    "batch": "solve --batch-api, pets resume RUN --replies FILE and pets runs cancel RUN",
    "figures": "replay POOL --plots FOLDER",
    "plan show": "fit --show ...",
    "plan": "fit --show PLAN",
    "questions": "pools questions ...",
    "top-up": "resume ...",
}
"""Former commands and what to type instead; ``...`` stands for the words that followed."""

MOCK_FAULTS = (
    "rate-limit", "error-500", "hang", "half-body", "wrong-json", "disconnect", "one-choice", "no-logprobs", "slow",
)  # fmt: skip
OPTIONS: Mapping[str, str] = {
    "--at-once": "--open-questions",
    "--dialect": "learned from what the server refuses; leave it out",
    "--context": "--local context=N",
    "--overshoot": "a tenth, for tokens and money: name a budget that is as much smaller where none may be exceeded",
    "--max-per-question": "--max-traces",
    "--patience": "--hurry 0 to 1",
    "--waves": "--hurry 0 to 1, or of batch jobs --policy okg:waves=N",
    "--ray-actors": "--ray ADDRESS,actors=N",
    "--ray-gpus": "--ray ADDRESS,gpus=N",
    "--slots": "--local slots=N",
    "--threads": "--local threads=N",
    "--window": "--confidence-window",
    "demo --questions": "--first",
    "demo --replay": "--no-live",
    "doctor --traces": "3, or as many as --first N takes: leave it out",
    "fit --mean-budget": "--budget 16x",
    "fit --rounds": "--hurry of `pets serve` and `pets stream`",
    "fit --zone": "--policy price:zone=X",
    "forecast --seed": "0: leave it out",
    "forecast --up-to": "--max-budget 24x",
    "forecast --target": "--target-consistency",
    "mock --answers": "the argument: pets mock ANSWERS.json",
    "mock --count": "pets mock made-up:questions=N",
    "mock --n-limit": "MockModel(n_limit=N) in Python",
    "mock --options": "pets mock made-up:options=N",
    "mock --prompt-cache": "MockModel(prompt_cache=True) in Python",
    "mock --questions": "pets mock made-up:questions=N",
    "mock --requests-per-minute": "--rpm",
    "mock --retry-after": "--fault rate-limit=RATE:SECONDS",
    "mock --slow-seconds": "--fault slow=RATE:SECONDS",
    "mock --strength": "pets mock made-up:strength=X",
    **{f"mock --{name}": f"--fault {name}=RATE" for name in MOCK_FAULTS},
    "doctor --json": "--format jsonl",
    "replay --limit": "--attainable",
    "replay --target": "--reference",
    "replay --zone": "--tolerance",
    "replay --ray": "--workers ray[:ADDRESS]",
    "runs delete --texts": "--texts-only",
    "runs export --as": "--what",
    "serve --allowance": "--budget AMOUNT/TIME",
    "sample --part": "--shard",
    "serve --exhausted": "--over-budget",
    "serve --log-level": "-q, which says nothing but errors",
    "serve --machine-safe": "--durability machine",
    "serve --max-messages": "4,096, within --max-body: leave it out",
    "serve --max-n": "16: leave it out",
    "serve --mean-budget": "--budget 16x",
    "serve --queue": "--open-questions",
    "serve --upstream": "--endpoint",
    "serve --window": "--budget-window",
    "serve --zone": "--policy price:zone=0.1, or of a plan `pets fit --policy price:zone=0.1`",
    "solve --expect": "--dry-run tokens=N,seconds=S",
    "solve --no-store": "--store none",
    "solve --resume": "`pets resume RUN`",
    "solve --run": "`pets resume RUN`",
    "solve --zone": "--policy okg:zone=X",
    "stream --alarm-rate": "0.01: leave it out",
    "stream --cold": "what a stream does without --plan: leave it out",
    "stream --horizon": "--first N, also on stdin",
    "stream --questions": "the argument QUESTIONS",
    "stream --replay": "--pool",
    "stream --resume": "`pets resume RUN [QUESTIONS]`",
    "stream --rounds": "--hurry 0 to 1",
    "stream --run": "`pets resume RUN [QUESTIONS]`",
    "stream --window": "--budget-window",
    "stream --zone": "--policy price:zone=X; a plan has its own, `pets fit --policy price:zone=X`",
}
"""Former options, of one command or of any, and what replaced them."""


def former_option(command: str, option: str) -> str | None:
    """What replaced an option of a command, ``runs export`` for one; ``None`` where there was none of that name.

    >>> former_option("stream", "--window"), former_option("sample", "--at-once"), former_option("solve", "--budjet")
    ('--budget-window', '--open-questions', None)
    """
    return OPTIONS.get(f"{command} {option}", OPTIONS.get(option))


def former_command(words: Sequence[str]) -> str | None:
    """What to type instead of a line that begins with a former command; a budget to add is written as one.

    >>> former_command(["top-up", "last", "--budget", "12x"])
    '`pets top-up` is now: pets resume last --budget +12x'
    """
    for length in (2, 1):
        former, rest = " ".join(words[:length]), list(words[length:])
        if (successor := COMMANDS.get(former)) is None:
            continue
        for at, word in enumerate(rest[1:], 1):
            if former == "top-up" and rest[at - 1] == "--budget" and word[0] not in "+=":
                rest[at] = f"+{word}"
        return f"`pets {former}` is now: pets {successor.replace('...', shlex.join(rest))}".rstrip()
    return None


class SuggestingGroup(click.Group):
    """Commands; a former one is answered with its successor, a mistyped one with what was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but for words that name no command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if (successor := former_command([*ctx.command_path.split()[1:], *args])) is not None:
                raise click.UsageError(successor, ctx) from None
            if close := difflib.get_close_matches(args[0], self.list_commands(ctx), 1):
                raise click.UsageError(f"{error.message} Did you mean {close[0]}?", ctx) from None
            raise
