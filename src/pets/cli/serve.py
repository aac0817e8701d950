"""``pets serve``: an OpenAI-compatible gateway that answers by vote."""

import math
import os
import re
import sys
from pathlib import Path
from typing import Any

import click

import pets.gateway
from pets.core.budget import Currency
from pets.engine.budget import Amount, TokenPrice, currency_of, total_of
from pets.errors import BudgetError, InputError
from pets.gateway import Limits, Settings
from pets.gateway.ledger import SpendRateLimit
from pets.gateway.telemetry import log_to
from pets.plans import Drift, read_plan
from pets.registry import make_policy
from pets.samplers.local import LocalSampler

__all__ = ["serve"]

SPAN = re.compile(r"(\d+(?:\.\d+)?)?\s*([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
at_least_1 = click.IntRange(min=1)


@click.command()
@click.option("--upstream", metavar="URL", multiple=True,
              help="The server behind, such as http://localhost:8000/v1; else a local model. Given several times, one "
              "takes over where another fails.")  # fmt: skip
@click.option("--rpm", type=at_least_1, help="Requests per minute that each upstream server takes.")
@click.option("--tpm", type=at_least_1, help="Tokens per minute that each upstream server takes.")
@click.option("--model", help="Without --upstream: a GGUF file.  [default: SmolLM2-135M-Instruct]")
@click.option("--context", type=at_least_1, help="Tokens of prompt and trace that the local model holds.")
@click.option("--slots", type=at_least_1, help="Traces that the local model decodes together.")
@click.option("--plan", type=click.Path(path_type=Path), help="What `pets fit` wrote; says policy and mean budget.")
@click.option("--policy", help="Instead of a plan.  [default: price:rounds=3]")
@click.option("--mean-budget", type=float, help="Traces a question, on average.  [default: the plan's, or 16]")
@click.option("--window", type=at_least_1, default=100, show_default=True, help="Questions that share a mean budget.")
@click.option("--store", type=click.Path(path_type=Path), help="Remembers spend and keys; without it, nothing is.")
@click.option("--machine-safe", is_flag=True, help="The ledger also outlives a power cut; slower.")
@click.option("--budget", help="All that votes may ever cost: 50000 (traces), 20Mtok or 100usd.")
@click.option("--allowance", metavar="AMOUNT/TIME", help="What votes may cost in a window of time: 5000/h, 2Mtok/30m.")
@click.option("--price", help="in=DOLLARS,out=DOLLARS per million tokens, for budgets in money.")
@click.option("--exhausted", type=click.Choice(["refuse", "single"]), default="refuse", show_default=True,
              help="A request that the budget does not pay for: 429, or one trace without a vote.")  # fmt: skip
@click.option("--answer", default="text", show_default=True, help="How answers are read: number, choice, math, text.")
@click.option("--max-traces", type=at_least_1, default=64, show_default=True, help="Of one question.")
@click.option("--timeout", type=float, default=600.0, show_default=True, help="Seconds for one request.")
@click.option("--concurrency", type=at_least_1, default=256, show_default=True, help="Traces in flight.")
@click.option("--queue", type=at_least_1, default=1024, show_default=True, help="Open questions; one more gets a 503.")
@click.option("--max-body", type=at_least_1, default=1 << 20, show_default=True, help="Bytes of a request.")
@click.option("--max-messages", type=at_least_1, default=256, show_default=True)
@click.option("--max-tokens", type=at_least_1, default=32_768, show_default=True, help="That a request may ask for.")
@click.option("--max-n", type=at_least_1, default=16, show_default=True, help="Choices of a plain request.")
@click.option("--passthrough/--no-passthrough", default=True, show_default=True, help="Serve plain models too, as is.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=int, default=8080, show_default=True, help="0 takes a free one.")
@click.option("--grace", type=click.IntRange(min=0), default=30, show_default=True, help="Seconds to finish at a stop.")
@click.option("--log-level", type=click.Choice(["INFO", "WARNING"]), default="INFO", show_default=True)
def serve(host: str, port: int, grace: int, log_level: str, **given: Any) -> None:
    """Serve an OpenAI-compatible gateway: model pets/NAME answers by vote, plain NAME passes through.

    The upstream server's key comes from PETS_UPSTREAM_KEY or OPENAI_API_KEY. Keys of your own: `pets keys add`. The
    dashboard is at /, Prometheus reads /metrics, logs are JSON lines on stderr.

    \b
    pets serve --upstream http://localhost:8000/v1 --answer number --store gateway.db
    pets serve --answer choice                                 the local model
    curl localhost:8080/v1/chat/completions -d '{"model": "pets/SmolLM2-135M-Instruct.Q4_1",
        "messages": [{"role": "user", "content": "Is Paris in (A) Spain or (B) France?"}]}'
    """
    log_to(sys.stderr, log_level)
    building = pets.gateway.build_gateway  # imported here: it is an extra
    total, allowance, currency = _limits(given)
    policy, mean_budget, drift = _policy(given)
    state = building(
        _server(given),
        policy,
        mean_budget=mean_budget,
        window=given["window"],
        store=given["store"] or ":memory:",
        durability="machine" if given["machine_safe"] else "process",
        total=total,
        rate_limit=allowance,
        currency=currency,
        key=os.environ.get("PETS_UPSTREAM_KEY") or os.environ.get("OPENAI_API_KEY"),
        settings=_settings(given),
        drift=drift,
    )
    if given["store"] is None:
        click.echo("No --store: what is spent is forgotten when the gateway stops.", err=True)
    says = "Ctrl-C stops." if state.keys.required else "Everybody may ask (pets keys add). Ctrl-C stops."
    pets.gateway.serve(state, host, port, grace=grace, ready=lambda url: click.echo(f"{url}/v1  {says}", err=True))


def _server(given: dict[str, Any]) -> list[str] | LocalSampler:
    """The addresses of the servers, or a local model."""
    own = {name: given[name] for name in ("model", "context", "slots")}
    if not given["upstream"]:
        return LocalSampler(**own)
    if named := [name for name, value in own.items() if value is not None]:
        raise InputError(f"--{named[0]} is for a local model; with --upstream, requests name theirs. Leave one out.")
    return list(given["upstream"])


def _policy(given: dict[str, Any]) -> tuple[Any, float, Drift | None]:
    """The policy, its mean budget, and what watches over a plan."""
    if given["plan"] is None:
        return make_policy(given["policy"] or "price:rounds=3"), given["mean_budget"] or 16.0, None
    if given["policy"] is not None:
        raise InputError("a --plan is a policy; leave --policy out.")
    plan = read_plan(given["plan"])
    return plan.policy(), given["mean_budget"] or plan.mean_budget, Drift.of(plan)


def _limits(given: dict[str, Any]) -> tuple[int | None, SpendRateLimit | None, Currency]:
    """The total and the allowance, in one currency."""
    price = None if given["price"] is None else TokenPrice.parse(given["price"])
    total = None if given["budget"] is None else _amount(given["budget"])
    text, _, span = (given["allowance"] or "").partition("/")
    if given["allowance"] is not None and not (text.strip() and span.strip()):
        raise InputError(
            f"--allowance is an amount in a window of time, such as 5000/h or 2Mtok/30m; got {given['allowance']!r}."
        )
    window = _amount(text) if given["allowance"] else None
    found = [amount for amount in (total, window) if amount is not None]
    if len({amount.coin for amount in found}) > 1:
        raise BudgetError("--budget and --allowance are in one unit: traces, tokens or money.")
    if not found:
        return None, None, Currency()
    currency = currency_of(found[0], price, prompt_tokens=0, max_tokens=given["max_tokens"])
    allowance = None if window is None else SpendRateLimit(total_of(window, 0), _span(span))
    return None if total is None else total_of(total, 0), allowance, currency


def _amount(text: str) -> Amount:
    amount = Amount.parse(text)
    if amount.unit == "mean":
        raise BudgetError(f"{text!r} is a mean; the ledger's limits are 5000 (traces), 2Mtok or 5usd.")
    return amount


def _span(text: str) -> float:
    found = SPAN.fullmatch(text.strip())
    if found is None or float(found[1] or 1) <= 0:
        raise InputError(f"{text!r} is no span of time; write s, 30s, m, 5m, h or d, as in --allowance 5000/h.")
    return float(found[1] or 1) * SECONDS[found[2]]


def _settings(given: dict[str, Any]) -> Settings:
    if not 0 < given["timeout"] < math.inf:
        raise InputError(f"--timeout is a number of seconds, more than 0; got {given['timeout']:g}.")
    limits = Limits(given["max_body"], given["max_messages"], given["max_tokens"], given["max_n"])
    names = ("answer", "max_traces", "timeout", "concurrency", "queue", "passthrough", "exhausted", "rpm", "tpm")
    return Settings(**{name: given[name] for name in names}, limits=limits)
