"""Writes `src/demerit/price_table.py` from the offline data of genai-prices: `python -m tools.price_table`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import time
from decimal import Decimal
from importlib import metadata
from pathlib import Path

import genai_prices
from genai_prices.data import providers
from genai_prices.types import (
    ClauseContains,
    ClauseEquals,
    ClauseOr,
    ClauseStartsWith,
    ConditionalPrice,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    Provider,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from demerit.pricing import bedrock_name, without_suffix

TARGET = Path(__file__).parents[1] / "src" / "demerit" / "price_table.py"

SELLERS = (
    "anthropic openai google x-ai deepseek mistral moonshotai zai minimax meta cursor"
    " aws groq cerebras fireworks together"
).split()
"""Makers, then those who sell the models of others at prices of their own."""

# Other kinds of work, and completion models from before agents.
NO_CHAT = re.compile(
    r"audio|embed|image|-live|moderation|ocr|realtime|sonic|transcri|-tts|whisper"
    r"|^(?:text-)?(?:ada|babbage|curie|davinci)"
)
# Which are a maker's own, and run nowhere else, where its list has others too.
OWN = {"cursor": "composer-", "google": "gemini-", "openai": "(?!gpt-oss)"}
# Tokens of a kind that a log does not tell apart, and fees by the request.
NOT_TOLD = ("output_audio_mtok", "output_image_mtok", "output_video_mtok", "output_reasoning_mtok",
            "output_citation_mtok", "requests_kcount")  # fmt: skip

HEADER = '''"""Prices of models in USD per million tokens. Written by `tools/price_table.py`: do not edit.

A line is the names of one model and its prices, each of input, cache read, cache write for 5 minutes, cache write for
1 hour, output; `>200000` begins the rates of a prompt of more tokens. A later price goes before an earlier one.

The data is that of genai-prices, under this license:

{license}
"""
# ruff: noqa: E501

SOURCE = "{source}"
TABLE_DIGEST = "{digest}"

TABLE = """\\
{table}"""
'''


def module_text() -> str:
    """The whole module, for the version of genai-prices that is installed."""
    table = table_text()
    digest = hashlib.blake2b(table.encode(), digest_size=4).hexdigest()
    terms = metadata.distribution("genai-prices").read_text("licenses/LICENSE") or ""
    assert terms.startswith("The MIT License"), "the table is to carry the license of its data"
    source = f"genai-prices {genai_prices.__version__}"
    return HEADER.format(license=terms.strip(), source=source, digest=digest, table=table)


def table_text() -> str:
    by_id = {provider.id: provider for provider in providers}
    return "\n".join(line for seller in SELLERS for line in _section(by_id[seller]))


def _section(provider: Provider) -> Iterator[str]:
    taken: dict[str, str] = {}
    lines: dict[str, None] = {}
    for model in provider.models:
        prices = " | ".join(_prices(provider.id, model))
        names = [name for name in _names(provider, model) if taken.setdefault(name, prices) == prices]
        if prices and names and not NO_CHAT.search(names[0]):
            lines[f"{' '.join(names)} = {prices}"] = None
    yield f"[{provider.id}]"
    yield from lines
    yield ""


def _names(provider: Provider, model: ModelInfo) -> list[str]:
    """Whole names that are this model's: what its rules spell out, and no guess at what else they may match."""
    if provider.id == "aws":
        return [bedrock_name(model.id.removeprefix("regional."))]
    names = [name for name in (model.id, *_spelled(model.match)) if re.fullmatch(r"[a-z0-9][\w./-]*\w", name.lower())]
    found = dict.fromkeys(name.lower() for name in names if provider.find_model(name.lower()) is model)
    if provider.id == "fireworks":
        found = dict.fromkeys(name.rpartition("/")[2] for name in found)
    elif provider.id not in {"groq", "together"}:
        found = {name: None for name in found if "/" not in name}
    if provider.id in OWN:
        found = {name: None for name in found if re.match(OWN[provider.id], name)}
    return [name for name in found if (short := without_suffix(name)) == name or short not in found]


def _spelled(match: MatchLogic) -> Iterator[str]:
    match match:
        case ClauseOr():
            for clause in match.or_:
                yield from _spelled(clause)
        case ClauseEquals():
            yield match.equals
        case ClauseStartsWith() if not re.search(r"-20\d*$", match.starts_with):
            yield match.starts_with.rstrip("@-")
        case ClauseContains():
            yield match.contains


def _prices(seller: str, model: ModelInfo) -> Iterator[str]:
    """Nothing when one of them cannot be told in the five classes of tokens."""
    prices = model.prices if isinstance(model.prices, list) else [ConditionalPrice(prices=model.prices)]
    told = [_rates(seller, model.id, price.prices) for price in prices]
    if all(told):
        for index, (price, rates) in enumerate(zip(prices, told, strict=True)):
            match price.constraint if index else None:  # the first one holds where no other does
                case StartDateConstraint(start_date):
                    yield f"from {start_date} {rates}"
                case TimeOfDateConstraint(start, end):
                    yield f"{_clock(start)}-{_clock(end)} {rates}"
                case _:
                    yield rates


def _clock(moment: time) -> str:
    assert moment.utcoffset() is None or not moment.utcoffset(), "hours are in UTC"
    assert not moment.second, "hours are told in minutes"
    return f"{moment:%H:%M}"


def _rates(seller: str, model: str, price: ModelPrice) -> str:
    """Five rates for each size of prompt; "" when input or output has no price, or a kind that is not told has one."""
    given = price.input_mtok, price.output_mtok
    if None in given or any(getattr(price, key) is not None for key in NOT_TOLD):
        return ""
    # What has no price of its own is charged as what it is a part of.
    keys = [
        (price.input_mtok,),
        (price.cache_read_mtok, price.input_mtok),
        (price.cache_write_mtok, price.input_mtok),
        (price.cache_write_1h_mtok, price.cache_write_mtok, price.input_mtok),
        (price.output_mtok,),
    ]
    columns = [next(value for value in column if value is not None) for column in keys]
    starts = sorted({tier.start for value in columns if isinstance(value, TieredPrices) for tier in value.tiers})
    # Anthropic's rule for keeping a cache for an hour, wherever Claude is sold: twice the input.
    doubled = "claude" in model and price.cache_write_mtok is not None and price.cache_write_1h_mtok is None
    texts = []
    for start in [-1, *starts]:
        rates = [_at(value, start) for value in columns]
        if doubled:
            rates[3] = 2 * rates[0]
        texts += ([f">{start}"] if start >= 0 else []) + [f"{rate.normalize():f}" for rate in rates]
    return " ".join(texts)


def _at(value: Decimal | TieredPrices, start: int) -> Decimal:
    if isinstance(value, Decimal):
        return value
    return next((tier.price for tier in reversed(value.tiers) if tier.start <= start), value.base)


if __name__ == "__main__":
    TARGET.write_text(module_text(), encoding="utf-8")
    print(f"{TARGET}: {len(TARGET.read_text(encoding='utf-8').splitlines())} lines")
