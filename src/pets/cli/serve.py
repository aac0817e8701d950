"""``pets serve``: an OpenAI-compatible gateway that answers by vote."""

import asyncio
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pets.gateway
from pets.arguments import Interval
from pets.cli._groups import SpecOptions, option, option_group, verb
from pets.cli._terminal import say
from pets.cli.options import HEADER, LOCAL, local_settings
from pets.engine.budget import Amount, TokenPrice, currency_of, total_of
from pets.errors import BudgetError, InputError
from pets.gateway import Limits, Settings
from pets.gateway.ledger_store import SpendRateLimit
from pets.gateway.settings import SERVED
from pets.gateway.telemetry import log_to
from pets.openai.headers import parse_headers
from pets.plans import Drift, read_plan
from pets.registry import typed_policy
from pets.samplers.local import LocalSampler
from pets.store.database import Durability

SPAN = re.compile(r"(\d+(?:\.\d+)?)?\s*([smhd])")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
SHOWN_MODELS = 8


@option_group("Model")
class UpstreamOptions:
    endpoint: tuple[str, ...] = option(
        "The server to ask, such as http://localhost:8000/v1; given several times, one takes over where another "
        "fails. Without one, a model on this machine answers.",
        (),
        metavar="URL",
    )
    model: tuple[str, ...] = option(
        "Without --endpoint: a GGUF file; SmolLM2-135M-Instruct if not given. With --endpoint, given several times: "
        "models that vote together as pets/mixture, each with its weight, A=2; a server of one of them is MODEL=URL.",
        (),
        metavar="NAME[=WEIGHT]",
    )
    local: tuple[str, ...] = LOCAL
    key_env: str | None = option(
        "The environment variable that holds the servers' key; PETS_UPSTREAM_KEY or OPENAI_API_KEY if not given.",
        metavar="NAME",
    )
    header: tuple[str, ...] = HEADER
    check: bool = option(
        "Look for the server and its models before serving. With --no-check it may come later; votes get a 503 until "
        "then.",
        True,
        rare=True,
    )
    wait: float = option(
        "How many seconds to wait for the server to come up.", 0.0, metavar="SECONDS", within=Interval(0, SECONDS["d"])
    )

    @property
    def key(self) -> str | None:
        names = ("PETS_UPSTREAM_KEY", "OPENAI_API_KEY") if self.key_env is None else (self.key_env,)
        return next((key for name in names if (key := os.environ.get(name))), None)


@option_group("Budget")
class SpendOptions:
    budget: tuple[str, ...] = option(
        "What votes may cost: 16x (traces per question on average; the plan's, or 16), 50000 (traces), 20Mtok or "
        "100usd in all, 5000/h or 2Mtok/30m in a window of time; give it again for more than one.",
        (),
        metavar="AMOUNT[/TIME]",
    )
    plan: Path | None = option("The plan that `pets fit` made; it says policy and mean budget.")

    def limits(self, max_tokens: int, price: TokenPrice | None = None) -> dict[str, Any]:
        """Parse the budgets into keywords of ``build_gateway``; the total and the window are in one currency.

        >>> SpendOptions(budget=("8x", "2Mtok", "50ktok/30m")).limits(100)["rate_limit"]
        SpendRateLimit(amount=50000, seconds=1800.0)
        """
        limits: dict[str, Any] = {}
        counted: list[Amount] = []
        for text in self.budget:
            number, slash, time = text.partition("/")
            amount, kind = Amount.parse(number), "rate_limit" if slash else "total"
            if amount.unit == "mean" and not slash:
                kind = "mean_budget"
            if kind in limits or (slash and amount.unit == "mean"):
                raise BudgetError(f"give one budget each: 16x on average, 100usd in all, 5usd/h; got {text!r}.")
            if kind == "mean_budget":
                limits[kind] = amount.number
                continue
            counted.append(amount)
            limits[kind] = total_of(amount, 0)
            if slash:
                match = SPAN.fullmatch(time.strip())
                seconds = float(match[1] or 1) * SECONDS[match[2]] if match else 0.0
                if not seconds:
                    forms = "write s, 30s, m, 5m, h or d, as in --budget 5000/h"
                    raise InputError(f"{time!r} is no span of time; {forms}.")
                limits[kind] = SpendRateLimit(limits[kind], seconds)
        if len({amount.ledger_unit for amount in counted}) > 1:
            raise BudgetError("a --budget in all and one in a window are in one unit: traces, tokens or money.")
        if not counted and price is not None:
            counted = [Amount(1, "usd")]
        if counted:
            limits["currency"] = currency_of(counted[0], price, prompt_tokens=0, max_tokens=max_tokens)
        return limits


@option_group("Gateway")
class GatewayOptions:
    host: str = option("The address to listen at.", "127.0.0.1")
    port: int = option("The port to listen at; 0 takes a free one.", 8080)
    store: str | None = option(
        "The file that remembers spend and keys, or the URL of a PostgreSQL, which gateways share; without one, "
        "nothing is remembered.",
        metavar="FILE",
    )
    durability: Durability = option(
        "What the ledger outlives: the end of the process, or also a power cut of the machine, which is slower.",
        "process",
        rare=True,
    )
    grace: int = option("How many seconds open requests get when the gateway stops.", 30, at_least=0, rare=True)


@verb()
def serve(
    upstream: UpstreamOptions,
    run: SpecOptions,
    spend: SpendOptions,
    settings: Settings,
    limits: Limits,
    gateway: GatewayOptions,
) -> None:
    """Serve an OpenAI-compatible gateway: model pets/NAME answers by vote, plain NAME passes through.

    The server's key comes from PETS_UPSTREAM_KEY or OPENAI_API_KEY. Keys of your own: `pets keys add`. The
    dashboard is at /, Prometheus reads /metrics, logs are JSON lines on stderr.

    \b
    pets serve --endpoint http://localhost:8000/v1 --answer number --store gateway.db
    pets serve --answer choice                                 the local model
    curl localhost:8080/v1/chat/completions --json '{"model": "pets/SmolLM2-135M-Instruct.Q4_1",
        "messages": [{"role": "user", "content": "Is Paris in (A) Spain or (B) France?"}]}'
    """
    if gateway.store == "":  # of a variable that is not set: the spend would be forgotten without a word
        raise InputError("--store is empty. Name a file or a URL; without --store, what is spent is forgotten.")
    log_to(sys.stderr)
    build = pets.gateway.build_gateway  # imported here: it is an extra
    if spend.plan is not None and "policy" in run:
        raise InputError("a --plan is a policy; leave --policy out.")
    values, spending, drift = dict(run), dict[str, Any](), None
    if spend.plan is not None:
        fitted = read_plan(spend.plan)
        values["policy"], spending["mean_budget"], drift = fitted.policy(), fitted.mean_budget, Drift.of(fitted)
    elif "policy" in values:
        values["policy"] = typed_policy(values["policy"])
    if len(prices := values.pop("price", ())) > 1:
        raise InputError("a gateway counts all its models at one price: give one --price.")
    spec = SERVED.with_options(**values, **({"price": prices[0]} if prices else {}))
    spending |= spend.limits(limits.max_tokens, spec.spending.price)
    state = build(
        _server(upstream),
        replace(settings, spec=spec, limits=limits),
        models=upstream.model if upstream.endpoint else None,
        store=gateway.store or ":memory:",
        durability=gateway.durability,
        key=upstream.key,
        headers=parse_headers(upstream.header),
        drift=drift,
        **spending,
    )
    models = asyncio.run(state.upstream.find_models(upstream.wait)) if upstream.check else []
    if gateway.store is None:
        say("No --store: what is spent is forgotten when the gateway stops.")
    pets.gateway.serve(
        state,
        gateway.host,
        gateway.port,
        grace=gateway.grace,
        ready=lambda url: say(*_welcome(url, models, keys=state.keys.required, settings=state.settings)),
    )


def _welcome(url: str, models: Sequence[str], *, keys: bool, settings: Settings) -> list[str]:
    """The lines that greet an operator: addresses, models, who may ask, how to try it."""
    url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    access = "Requests need a key." if keys else "Everybody may ask (pets keys add)."
    lines = [f"{url}/v1  {access} Ctrl-C stops.", f"Dashboard: {url}/"]
    names = models[:SHOWN_MODELS]
    if names:
        more = f" and {len(models) - len(names)} more" if len(models) > len(names) else ""
        plain = f"; without {settings.prefix} they pass through" if settings.passthrough else ""
        lines.append(f"Models: {', '.join(settings.prefix + name for name in names)}{more}{plain}")
    message = {"role": "user", "content": "What is 17 x 23?"}
    body = json.dumps({"model": settings.prefix + (models[0] if models else "NAME"), "messages": [message]})
    key = """ -H "Authorization: Bearer $PETS_KEY\"""" if keys else ""
    lines.append(f"Try: curl {url}/v1/chat/completions -H 'Content-Type: application/json'{key} -d {shlex.quote(body)}")
    return lines


def _server(upstream: UpstreamOptions) -> list[str] | LocalSampler:
    if not upstream.endpoint:
        if len(upstream.model) > 1:
            raise InputError("several models vote at servers: give --endpoint URL, or name one --model.")
        return LocalSampler(next(iter(upstream.model), None), **local_settings(upstream.local))
    single = upstream.model[0] if len(upstream.model) == 1 else None
    if named := [name for name, value in (("model", single), ("local", upstream.local)) if value]:
        raise InputError(f"--{named[0]} is for a local model; with --endpoint, requests name theirs. Leave one out.")
    return list(upstream.endpoint)
