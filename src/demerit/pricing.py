"""What a model request cost at the seller's list price, in USD.

The prices are a table that is made at release (`price_table`, by `tools/price_table.py`), so that the same version of
demerit prices the same log alike on every machine. Not in a price: discounts, plans, service tiers, and what is
charged by the search or the request instead of the token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from typing import NamedTuple

from demerit.model import Usage
from demerit.price_table import SOURCE, TABLE, TABLE_DIGEST

__all__ = ["PRICES_VERSION", "cost_usd"]

_RULES = 1
"""Raised when a rule in this file changes what some request costs."""

PRICES_VERSION = f"{SOURCE} {TABLE_DIGEST} {_RULES}"
"""Differs where any price may differ."""

_LONGEST_NAME = 200
_MEGA = 1_000_000

_ROUTERS = frozenset(
    "azure azure_ai azure-openai copilot github-copilot github_copilot google-vertex google-vertex-anthropic litellm"
    " litellm_proxy models openrouter publishers vertex-ai vertex_ai vertex_ai_beta vertexai".split()
)
"""First parts of a name that say who passes the request on, at the price of the model's maker."""

_SELLERS = {
    "accounts": "fireworks",
    "amazon-bedrock": "aws",
    "anthropic": "anthropic",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "cerebras": "cerebras",
    "cursor": "cursor",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "fireworks-ai": "fireworks",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "google": "google",
    "groq": "groq",
    "meta": "meta",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "moonshot-ai": "moonshotai",
    "openai": "openai",
    "together": "together",
    "together_ai": "together",
    "togetherai": "together",
    "x-ai": "x-ai",
    "xai": "x-ai",
    "z-ai": "zai",
    "zai": "zai",
}
"""First part of a name -> section of the table."""

_CLOSED = ("anthropic", "cursor", "google", "meta", "openai", "x-ai")
"""Makers whose models run nowhere but where they are sold, so that a name without a seller is theirs."""

_OPEN = ("deepseek", "minimax", "mistral", "moonshotai", "zai")
"""Makers who give weights away, often under the very name that they sell them by. A bare `glm-4.6` may have run on
somebody's own machine: we rather leave a bought request unpriced than invent a bill for a free one."""

_ONLY_SOLD = re.compile(
    r"deepseek-(?:chat|reasoner)|codestral-\d+|moonshot-v1-.+|.+-(?:latest|preview|highspeed|turbo)"
)
"""Names of theirs that only their own API answers to."""

_PUBLISHERS = frozenset({"mistralai", "moonshotai"})
"""First parts that name a seller, and the publisher of weights as well: they say no more than a bare name."""

_SUFFIX = re.compile(r"(?:\[1m\]|[-@]20\d{6}|-20\d\d-\d\d-\d\d|@(?:default|latest))+$")
"""Date of a snapshot, or the size of the window that the agent asked for: none has a price of its own."""

_BEDROCK_VERSION = re.compile(r"(?:-v\d+)?(?::\d+k?)*$")
_BEDROCK_REGION = re.compile(r"^(?:apac|au|ca|eu|in|jp|us)\.")


class Rates(NamedTuple):
    """USD per million tokens, in the classes of `Usage`."""

    input: float
    cache_read: float
    cache_write_5m: float
    cache_write_1h: float
    output: float


class Price(NamedTuple):
    """What a model costs in some span of time."""

    first_day: date | None
    """None: since ever."""
    minutes: tuple[int, int] | None
    """Of the UTC day, first and one after the last, over midnight where the first is larger; None: all of it."""
    tiers: tuple[tuple[int, Rates], ...]
    """By size of prompt, ascending: the last whose number of tokens is exceeded holds, for the whole request."""

    def holds_at(self, minute: int) -> bool:
        if self.minutes is None:
            return True
        first, end = self.minutes
        return first <= minute < end if first <= end else minute >= first or minute < end


def cost_usd(model: str, usage: Usage, at: date | datetime | None) -> float | None:
    """What one request cost at list price, in USD; a lower bound where its output is only partly known.

    model: as the log spells it: case, the date of a snapshot, and the forms of routers and clouds do not matter.
    at: when it was sent, in UTC where it has no zone; without it (or without its hour) there is a price only if every
    price that the model ever had (or has on that day) comes to the same.
    None when unpriced: a model that is not in the table, that may have run on somebody's own machine, or the sum of
    several requests that would cost more as one long prompt than as many short ones.
    """
    if len(model) > _LONGEST_NAME:  # before anything keeps it
        return None
    if isinstance(at, datetime):
        if at.tzinfo is not UTC and at.tzinfo is not None:
            at = at.astimezone(UTC)
        prices = _prices(model, at.date())
        if len(prices) > 1:
            minute = at.hour * 60 + at.minute
            prices = next((price,) for price in prices if price.holds_at(minute))
    else:
        prices = _prices(model, at)
    if len(prices) == 1:
        tiers = prices[0].tiers
        if len(tiers) == 1:
            return _cost(tiers[0][1], usage)
    costs = {_cost(rates, usage) for price in prices for rates in _rates(price.tiers, usage)}
    return costs.pop() if len(costs) == 1 else None


def _cost(rates: Rates, usage: Usage) -> float:
    return (
        usage.input_tokens * rates.input
        + usage.cache_read_tokens * rates.cache_read
        + usage.cache_write_5m_tokens * rates.cache_write_5m
        + usage.cache_write_1h_tokens * rates.cache_write_1h
        + usage.output_tokens * rates.output
    ) / _MEGA


def _rates(tiers: Sequence[tuple[int, Rates]], usage: Usage) -> Sequence[Rates]:
    """The rates that may hold: one for a request, and every one within reach for a sum of requests."""
    tokens = usage.context_tokens
    reached = [rates for over, rates in tiers if tokens > over]
    return reached if usage.is_sum else reached[-1:]


@lru_cache(maxsize=4096)
def _prices(model: str, day: date | None) -> tuple[Price, ...]:
    """Every price that may hold on a day, the one to ask first in front; on any day for None. Empty when unpriced."""
    prices = _read(_entry(model))
    if day is None:
        return prices
    begun = [price for price in prices if price.first_day is None or price.first_day <= day]
    for index, price in enumerate(begun):
        if price.minutes is None:
            return tuple(begun[: index + 1])
    return tuple(begun)


def without_suffix(name: str) -> str:
    """The name of a model without the date of its snapshot."""
    return _SUFFIX.sub("", name)


def bedrock_name(name: str) -> str:
    """How the table spells a name of Bedrock: without version and date, and without the region, except `global`."""
    return without_suffix(_BEDROCK_VERSION.sub("", _BEDROCK_REGION.sub("", without_suffix(name))))


def _entry(model: str) -> str:
    """The model's prices as the table writes them; "" when unpriced."""
    parts = model.strip().lower().split("/")
    while len(parts) > 1 and parts[0] in _ROUTERS:
        del parts[0]
    name = parts[-1]
    bedrock = _sold_by("aws")
    if len(parts) == 1:
        return _lookup(_bare_names(), name) or bedrock.get(bedrock_name(name), "")
    first = parts[0]
    if first in _PUBLISHERS and len(parts) == 2:
        return _lookup(_bare_names(), name)
    seller = "aws" if first.startswith("arn:aws:bedrock:") else _SELLERS.get(first)
    if seller is None:
        return ""
    if seller == "aws":
        return bedrock.get(bedrock_name(name), "")
    if seller == "groq" or seller == "together":  # their names are paths: openai/gpt-oss-120b
        name = "/".join(parts[1:])
    elif seller != "fireworks" and any(part not in _ROUTERS for part in parts[1:-1]):
        return ""
    return _lookup(_sold_by(seller), name)


def _lookup(names: dict[str, str], name: str) -> str:
    """A snapshot with a price of its own goes before the model's."""
    return names.get(name) or names.get(without_suffix(name), "")


@cache
def _bare_names() -> dict[str, str]:
    """What a name without a seller costs."""
    closed = {name: prices for maker in _CLOSED for name, prices in _sold_by(maker).items()}
    sold = {name: prices for maker in _OPEN for name, prices in _sold_by(maker).items() if _ONLY_SOLD.fullmatch(name)}
    return sold | closed


def _sold_by(seller: str) -> dict[str, str]:
    return _sections().get(seller, {})


@cache
def _sections() -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in TABLE.splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line:
            names, _, prices = line.partition(" = ")
            section.update(dict.fromkeys(names.split(), prices))
    return sections


def _read(entry: str) -> tuple[Price, ...]:
    """Prices of an entry, the last first: that is how they are asked."""
    return tuple(_read_price(text) for text in reversed(entry.split(" | "))) if entry else ()


def _read_price(text: str) -> Price:
    """From `[from 2026-03-13] [00:30-16:30] FIVE RATES [>200000 FIVE RATES]...`."""
    words = text.split()
    first_day = minutes = None
    if words[0] == "from":
        first_day = date.fromisoformat(words[1])
        del words[:2]
    if ":" in words[0]:
        start, _, end = words.pop(0).partition("-")
        minutes = _minute(start), _minute(end)
    words.insert(0, ">-1")
    tiers = [(int(words[at][1:]), Rates(*map(float, words[at + 1 : at + 6]))) for at in range(0, len(words), 6)]
    return Price(first_day, minutes, tuple(tiers))


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
