"""Several models, one vote: their names, weights and prices, and which values are whose.

An option that is a model's own is written ``MODEL=VALUE``, one that is every model's ``VALUE`` alone:

    --model Qwen/Qwen3-8B=2 --model gpt-oss-20b --endpoint Qwen/Qwen3-8B=http://a:8000/v1 --endpoint http://b:8000/v1

What is written for a model comes before what is written for all. In Python the same is a mapping from model to value.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pets.core.mixture import ModelMixture
from pets.engine.budget import TokenPrice
from pets.errors import InputError

ANOTHER_MODELS_URL = re.compile(r"((?:(?!://).)+?)=[a-zA-Z][a-zA-Z0-9+.-]*://")

Models = str | Sequence[str] | Mapping[str, float]
"""One model, several with equal weights or written ``NAME=WEIGHT``, or each with its weight."""

Endpoints = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""Servers of every model, or each model's own; in a sequence those are written ``MODEL=URL``."""


Keys = str | Sequence[str | None] | Mapping[str, str | None] | None
"""The servers' key, one for each server, or each model's own: in a sequence written ``MODEL=KEY``."""


@dataclass(frozen=True, slots=True)
class ModelShare:
    """One of several models: its weight, and its price where it has one of its own.

    >>> ModelShare.parse("Qwen/Qwen3-8B=2"), ModelShare.parse("qwen3:8b").weight
    (ModelShare(name='Qwen/Qwen3-8B', weight=2, price=None), 1)
    """

    name: str
    weight: float = 1
    price: TokenPrice | None = None

    @classmethod
    def parse(cls, text: str) -> "ModelShare":
        """``NAME=WEIGHT``, or ``NAME`` alone for a weight of 1."""
        name, equals, number = text.rpartition("=")
        try:
            weight = float(number) if equals else 1.0
        except ValueError:
            name, weight = text, 1.0
        name = name or text
        return cls(name, int(weight) if weight.is_integer() else weight)

    def __str__(self) -> str:
        return self.name if self.weight == 1 else f"{self.name}={self.weight:g}"


def model_shares(models: Models | None) -> tuple[ModelShare, ...]:
    """Several models with their weights; none where there is one model, or none.

    >>> model_shares(["a=2", "b"]) == model_shares({"a": 2, "b": 1}), model_shares("a=2")
    (True, ())
    """
    if models is None or isinstance(models, str):
        return ()
    pairs = models.items() if isinstance(models, Mapping) else None
    shares = [ModelShare(*pair) for pair in pairs] if pairs is not None else list(map(ModelShare.parse, models))
    twice = [name for name, count in Counter(share.name for share in shares).items() if count > 1]
    if twice:
        raise InputError(f"the model {twice[0]} is named twice; name it once, with a weight: {twice[0]}=2.")
    if len(shares) < 2:
        return ()
    ModelMixture(tuple(share.weight for share in shares))  # or refuses their weights
    return tuple(shares)


def with_prices(shares: Sequence[ModelShare], prices: Mapping[str, TokenPrice | str]) -> tuple[ModelShare, ...]:
    """The models with prices of their own.

    >>> with_prices(model_shares(["a", "b"]), {"b": "in=1,out=2"})[1].price
    TokenPrice(prompt=1.0, output=2.0, batch=0.5, cached=None)
    """
    if unknown := set(prices) - {share.name for share in shares}:
        raise InputError(f"there is a price for {min(unknown)}, which is none of several models.")
    parsed = {name: TokenPrice.parse(price) if isinstance(price, str) else price for name, price in prices.items()}
    return tuple(replace(share, price=parsed.get(share.name, share.price)) for share in shares)


def model_name(models: Models | None) -> str | None:
    """The name of the one model, or of all with their weights.

    >>> model_name("a"), model_name(["a=2", "b"]), model_name(["a"]), model_name(None)
    ('a', 'a=2, b', 'a', None)
    """
    if models is None or isinstance(models, str):
        return models
    return ", ".join(map(str, model_shares(models))) or next((ModelShare.parse(name).name for name in models), None)


def values_by_model(option: str, names: Sequence[str], values: Endpoints | None) -> dict[str, list[str]]:
    """The values of an option by model: those written ``MODEL=VALUE``, else those written for all.

    >>> values_by_model("--endpoint", ["a", "b"], ["a=http://one/v1", "http://two/v1"])
    {'a': ['http://one/v1'], 'b': ['http://two/v1']}
    """
    if isinstance(values, Mapping):
        if unknown := set(values) - set(names):
            raise InputError(f"{option} names {min(unknown)}, which is none of the models {', '.join(names)}.")
        return {name: _several(values.get(name)) for name in names}
    own: dict[str, list[str]] = {name: [] for name in names}
    shared = []
    for value in _several(values):
        name = max((name for name in names if value.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            shared.append(value)
        else:
            own[name].append(value[len(name) + 1 :])
    return {name: own[name] or shared for name in names}


def endpoints_by_model(
    names: Sequence[str], endpoints: Endpoints | None, option: str = "--endpoint"
) -> dict[str, list[str]]:
    """The servers of each model; refused where one is named for a model that is not there.

    >>> endpoints_by_model(["a", "b"], "http://one/v1?to=http://two/v1")["a"]
    ['http://one/v1?to=http://two/v1']
    """
    own = values_by_model(option, names, endpoints)
    for url in (url for urls in own.values() for url in urls):
        if match := ANOTHER_MODELS_URL.match(url):
            raise InputError(f"{option} names {match[1]}, which is none of the models {', '.join(names)}.")
    return own


def keys_by_model(names: Sequence[str], keys: Keys) -> dict[str, str | None]:
    """The key of each model: its own, else that of all, else none.

    >>> keys_by_model(["a", "b"], ["a=secret", "other"]), keys_by_model(["a", "b"], {"b": "secret"})
    ({'a': 'secret', 'b': 'other'}, {'a': None, 'b': 'secret'})
    """
    own = values_by_model("key", names, _present(keys))
    for name, several in own.items():
        if len(several) > 1:
            raise InputError(f"there are {len(several)} keys for the model {name}; give each model one.")
    return {name: several[0] if several else None for name, several in own.items()}


def _present(keys: Keys) -> Endpoints:
    """The keys without those that are not there."""
    if isinstance(keys, Mapping):
        return {name: key for name, key in keys.items() if key}
    return keys if isinstance(keys, str) else [key for key in keys or () if key]


def _several(value: str | Sequence[str] | None) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def shares_from_plain(rows: Sequence[Mapping[str, Any]]) -> tuple[ModelShare, ...]:
    """The shares that ``asdict`` described.

    >>> from dataclasses import asdict
    >>> shares = with_prices(model_shares(["a=2", "b"]), {"b": TokenPrice(1, 2)})
    >>> shares_from_plain([asdict(share) for share in shares]) == shares
    True
    """
    return tuple(
        ModelShare(row["name"], row["weight"], None if row["price"] is None else TokenPrice(**row["price"]))
        for row in rows
    )
