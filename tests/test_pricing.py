"""What requests cost. Every expected value is worked out from prices as their sellers publish them, in USD per million
tokens (input / cache read / 5-minute write / 1-hour write / output)."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, timedelta, timezone

import genai_prices
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.price_table import TARGET, module_text

from demerit import price_table
from demerit.model import Usage
from demerit.pricing import PRICES_VERSION, Price, Rates, _read, _sections, cost_usd

DAY = date(2026, 5, 1)
MEGA = 1_000_000
EACH = Usage(
    input_tokens=1000,
    cache_read_tokens=100_000,
    cache_write_5m_tokens=2000,
    cache_write_1h_tokens=4000,
    output_tokens=500,
)


def usd(value: float) -> object:
    return pytest.approx(value, rel=1e-12)


# --- classes of tokens --------------------------------------------------------------------------------------


def test_the_five_classes_are_priced_apart() -> None:
    # Claude Opus 4.5: 5 / 0.5 / 6.25 / 10 / 25 -> 0.005 + 0.05 + 0.0125 + 0.04 + 0.0125
    assert cost_usd("claude-opus-4-5", EACH, DAY) == usd(0.12)


def test_an_hour_of_cache_costs_twice_the_input() -> None:
    # Claude Opus 4.5, input 5: 60,120 x 10, not x 6.25, which gave 0.37575.
    assert cost_usd("claude-opus-4-5", Usage(cache_write_1h_tokens=60_120), DAY) == usd(0.6012)
    assert cost_usd("claude-opus-4-5", Usage(cache_write_5m_tokens=60_120), DAY) == usd(0.37575)


@pytest.mark.parametrize(
    ("model", "usd_per_mega"),
    [
        pytest.param("claude-3-haiku-20240307", 0.5, id="Claude 3 Haiku, input 0.25"),
        pytest.param("claude-sonnet-5", 4, id="Claude Sonnet 5, input 2"),
        pytest.param(
            "anthropic.claude-3-5-haiku-20241022-v1:0", 1.6, id="on Bedrock, whose list has no such price: 0.8"
        ),
    ],
)
def test_an_hour_of_cache_costs_twice_the_input_of_every_claude(model: str, usd_per_mega: float) -> None:
    assert cost_usd(model, Usage(cache_write_1h_tokens=MEGA), DAY) == usd(usd_per_mega)


def test_cached_input_is_no_input() -> None:
    # GPT-5, 1.25 / 0.125 / - / - / 10: of 100 tokens that Codex logs as input 40 were cached.
    assert cost_usd("gpt-5", Usage(input_tokens=60, cache_read_tokens=40), DAY) == usd(80e-6)


def test_reasoning_is_a_part_of_the_output() -> None:
    # GPT-5: 30 x 1.25 + 40 x 0.125 + 20 x 10, with 12 of the 20 spent on reasoning.
    usage = Usage(input_tokens=30, cache_read_tokens=40, output_tokens=20, reasoning_tokens=12)
    assert cost_usd("gpt-5", usage, DAY) == usd(242.5e-6)


def test_where_the_cache_has_no_price_its_tokens_are_input() -> None:
    # o1-pro: 150 and 600, and nothing off for cached input.
    assert cost_usd("o1-pro", Usage(input_tokens=1000, cache_read_tokens=1000), DAY) == usd(0.3)


def test_nothing_sent_costs_nothing_where_there_is_a_price() -> None:
    assert cost_usd("gpt-5", Usage(), DAY) == 0.0


# --- unpriced -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("gpt-99-codex", id="nobody knows it"),
        pytest.param("claude-opus-4-55", id="only its beginning is known"),
        pytest.param("claude-opus-4-8-turbo", id="a variant of a known model"),
        pytest.param("<synthetic>", id="written by no model"),
        pytest.param("", id="no name"),
        pytest.param("/", id="a name of nothing"),
        pytest.param("claude-opus-4-5" + "-20260101" * 10_000, id="a name without end"),
        pytest.param("ollama/gpt-5", id="a local server, whatever its model is called"),
        pytest.param("/models/gpt-5", id="a file"),
        pytest.param("qwen3-coder:30b", id="a tag of Ollama"),
        pytest.param("deepseek-r1:8b", id="a tag of Ollama, of a maker who sells too"),
        pytest.param("glm-4.6", id="weights that anybody may run"),
        pytest.param("gpt-oss-20b", id="weights that OpenAI gives away"),
        pytest.param("openai/gpt-oss-20b", id="their repository"),
        pytest.param("mistralai/Devstral-Small-2507", id="weights by the name of the API, in their repository"),
        pytest.param("openrouter/z-ai/glm-4.6:free", id="a variant of a router"),
        pytest.param("us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0", id="a region with prices of its own"),
        pytest.param("gemini-2.5-flash-preview-tts", id="a model that speaks"),
        pytest.param("text-embedding-3-small", id="a model without output"),
    ],
)
def test_unpriced_is_none_and_not_zero(model: str) -> None:
    assert cost_usd(model, EACH, DAY) is None
    assert cost_usd(model, Usage(), DAY) is None


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # Claude Opus 4.5: 5 for a million of input
        pytest.param("claude-opus-4-5", 5, id="as its maker writes it"),
        pytest.param(" Claude-Opus-4-5 ", 5, id="case and spaces"),
        pytest.param("claude-opus-4.5", 5, id="a dot in the version"),
        pytest.param("claude-opus-4-5-20251101", 5, id="date of a snapshot"),
        pytest.param("claude-opus-4-5-20260102", 5, id="date of a later snapshot"),
        pytest.param("claude-opus-4-5[1m]", 5, id="the window that Claude Code asked for"),
        pytest.param("claude-opus-4-5-20251101[1m]", 5, id="both"),
        pytest.param("claude-opus-4-5@20251101", 5, id="Vertex"),
        pytest.param("claude-opus-4-5@default", 5, id="Vertex without a date"),
        pytest.param("vertex_ai/claude-opus-4-5@20251101", 5, id="Vertex by a router's name"),
        pytest.param("publishers/anthropic/models/claude-opus-4-5", 5, id="a resource of Vertex"),
        pytest.param("anthropic/claude-opus-4.5", 5, id="with its maker"),
        pytest.param("openrouter/anthropic/claude-opus-4.5", 5, id="router and maker"),
        pytest.param("litellm_proxy/anthropic/claude-opus-4-5", 5, id="proxy and maker"),
        pytest.param("github_copilot/claude-opus-4.5", 5, id="router alone"),
        # Bedrock: the global endpoint at Anthropic's price, a region for a tenth more
        pytest.param("global.anthropic.claude-opus-4-5-20251101-v1:0", 5, id="Bedrock, global"),
        pytest.param("us.anthropic.claude-opus-4-5-20251101-v1:0", 5.5, id="Bedrock, region of a profile"),
        pytest.param("anthropic.claude-opus-4-5-20251101-v1:0", 5.5, id="Bedrock, region of the caller"),
        pytest.param("bedrock/eu.anthropic.claude-opus-4-5-20251101-v1:0", 5.5, id="Bedrock by a router's name"),
        pytest.param(
            "arn:aws:bedrock:us-east-1:111122223333:inference-profile/us.anthropic.claude-opus-4-5-20251101-v1:0",
            5.5,
            id="Bedrock, ARN of a profile",
        ),
        # GPT-5: 1.25; GPT-4o: 2.5, but its first snapshot 5
        pytest.param("openai/gpt-5", 1.25, id="OpenAI with its maker"),
        pytest.param("azure/gpt-5-2025-08-07", 1.25, id="Azure, with dashes in the date"),
        pytest.param("gpt-5-2026-01-02", 1.25, id="a snapshot that nobody listed"),
        pytest.param("gpt-4o-2024-08-06", 2.5, id="a snapshot at the model's price"),
        pytest.param("gpt-4o-2024-05-13", 5, id="a snapshot at its own price"),
        # Gemini 2.5 Flash: 0.3; Grok Code Fast 1: 0.2; GLM-4.6 at Z.ai: 0.6; Kimi K2 0905 at Moonshot: 0.6
        pytest.param("models/gemini-2.5-flash", 0.3, id="Gemini's API"),
        pytest.param("gemini/gemini-2.5-flash", 0.3, id="Gemini by a router's name"),
        pytest.param("x-ai/grok-code-fast-1", 0.2, id="xAI"),
        pytest.param("z-ai/glm-4.6", 0.6, id="open weights, from who sells them"),
        pytest.param("kimi-k2-0905-preview", 0.6, id="a name that only its API answers to"),
        # GPT-OSS 20B at Groq: 0.075, at Fireworks: 0.07
        pytest.param("groq/openai/gpt-oss-20b", 0.075, id="open weights from Groq"),
        pytest.param("fireworks_ai/accounts/fireworks/models/gpt-oss-20b", 0.07, id="open weights from Fireworks"),
    ],
)
def test_a_model_is_found_by_any_name_it_goes_by(model: str, expected: float) -> None:
    # A tenth of a million: below every size from which a longer prompt costs more.
    assert cost_usd(model, Usage(input_tokens=100_000), DAY) == usd(expected / 10)


# --- size of the prompt -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # Claude Sonnet 4.5: 3 / 0.3 / 3.75 / 6 / 15, over 200,000 tokens 6 / 0.6 / 7.5 / 12 / 22.5
        pytest.param(Usage(input_tokens=200_000, output_tokens=1000), 0.615, id="a prompt of just that size"),
        pytest.param(Usage(input_tokens=200_001, output_tokens=1000), 1.222506, id="one more: all of it costs more"),
        pytest.param(Usage(input_tokens=1, cache_read_tokens=200_000), 0.120006, id="what was cached counts"),
        pytest.param(
            Usage(cache_write_5m_tokens=100_000, cache_write_1h_tokens=100_001), 1.950012, id="what was written counts"
        ),
        pytest.param(Usage(input_tokens=1000, output_tokens=300_000), 4.503, id="the output does not"),
    ],
)
def test_a_long_prompt_costs_more(usage: Usage, expected: float) -> None:
    assert cost_usd("claude-sonnet-4-5", usage, DAY) == usd(expected)


def test_a_sum_of_requests_has_a_price_while_no_request_can_have_been_long() -> None:
    # GPT-5.4: 2.5 for input, 5 over 272,000 tokens; GPT-5 costs the same at any size.
    assert cost_usd("gpt-5.4", Usage(input_tokens=272_000, is_sum=True), DAY) == usd(0.68)
    assert cost_usd("gpt-5.4", Usage(input_tokens=272_001, is_sum=True), DAY) is None
    assert cost_usd("gpt-5", Usage(input_tokens=MEGA, is_sum=True), DAY) == usd(1.25)


# --- time ---------------------------------------------------------------------------------------------------

LONG = Usage(input_tokens=400_000)
SHORT = Usage(input_tokens=100_000)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        # Claude Opus 4.6: 5 for input, 10 over 200,000 tokens; on 2026-03-13 the long prompt came down to 5
        pytest.param(date(2026, 3, 12), 4.0, id="the day before"),
        pytest.param(date(2026, 3, 13), 2.0, id="the day"),
        pytest.param(datetime(2026, 3, 12, 23, 59, 59, tzinfo=UTC), 4.0, id="the last second"),
        pytest.param(datetime(2026, 3, 13, tzinfo=UTC), 2.0, id="the first second"),
        pytest.param(datetime(2026, 3, 13), 2.0, id="without a zone it is UTC"),
        pytest.param(datetime(2026, 3, 12, 20, tzinfo=timezone(timedelta(hours=-5))), 2.0, id="the day is that of UTC"),
        pytest.param(None, None, id="any day: it cost this or that"),
    ],
)
def test_a_price_holds_from_its_day_on(at: date | None, expected: float | None) -> None:
    assert cost_usd("claude-opus-4-6", LONG, at) == (None if expected is None else usd(expected))


def test_without_a_day_there_is_a_price_when_it_was_always_the_same() -> None:
    assert cost_usd("claude-opus-4-6", SHORT, None) == usd(0.5)  # 5, before and after
    assert cost_usd("claude-opus-4-5", SHORT, None) == usd(0.5)  # never changed


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        # DeepSeek's chat model in the spring of 2025: 0.27 for input from 00:30 to 16:30 UTC, 0.135 in the other hours
        pytest.param(datetime(2025, 4, 1, 0, 29, tzinfo=UTC), 0.135, id="before the hours"),
        pytest.param(datetime(2025, 4, 1, 0, 30, tzinfo=UTC), 0.27, id="from the first minute"),
        pytest.param(datetime(2025, 4, 1, 16, 29, 59, tzinfo=UTC), 0.27, id="to the last second"),
        pytest.param(datetime(2025, 4, 1, 16, 30, tzinfo=UTC), 0.135, id="after the hours"),
        pytest.param(date(2025, 4, 1), None, id="an unknown hour"),
    ],
)
def test_a_price_holds_in_its_hours(at: date, expected: float | None) -> None:
    assert cost_usd("deepseek-chat", Usage(input_tokens=MEGA), at) == (None if expected is None else usd(expected))


@pytest.mark.parametrize(
    ("minute", "holds"),
    [(22 * 60, True), (0, True), (6 * 60 - 1, True), (6 * 60, False), (22 * 60 - 1, False)],
    ids=["its first minute", "midnight", "its last minute", "the one after", "the one before"],
)
def test_hours_may_run_over_midnight(minute: int, holds: bool) -> None:
    assert Price(None, (22 * 60, 6 * 60), ((-1, Rates(1, 1, 1, 1, 1)),)).holds_at(minute) is holds


# --- properties ---------------------------------------------------------------------------------------------

counts = st.integers(0, 20_000)
usages = st.builds(
    Usage,
    input_tokens=counts,
    cache_read_tokens=counts,
    cache_write_5m_tokens=counts,
    cache_write_1h_tokens=counts,
    output_tokens=counts,
)


@given(usages, usages)
def test_requests_cost_together_what_they_cost_apart(one: Usage, two: Usage) -> None:
    both = Usage(
        input_tokens=one.input_tokens + two.input_tokens,
        cache_read_tokens=one.cache_read_tokens + two.cache_read_tokens,
        cache_write_5m_tokens=one.cache_write_5m_tokens + two.cache_write_5m_tokens,
        cache_write_1h_tokens=one.cache_write_1h_tokens + two.cache_write_1h_tokens,
        output_tokens=one.output_tokens + two.output_tokens,
        is_sum=True,
    )
    costs = [cost_usd("claude-sonnet-4-5", usage, DAY) for usage in (one, two, both)]
    assert costs[0] is not None and costs[1] is not None
    assert costs[2] == pytest.approx(costs[0] + costs[1], rel=1e-9)


@given(
    st.text()
    | st.lists(st.sampled_from("anthropic openai bedrock models @ - [1m] v1:0 gpt-5 / . us".split())).map("".join)
)
def test_any_name_has_a_cost_or_none(model: str) -> None:
    cost = cost_usd(model, EACH, None)
    assert cost is None or cost > 0


# --- the table ----------------------------------------------------------------------------------------------


def test_the_version_is_that_of_the_table() -> None:
    digest = hashlib.blake2b(price_table.TABLE.encode(), digest_size=4).hexdigest()
    assert digest == price_table.TABLE_DIGEST
    assert digest in PRICES_VERSION and price_table.SOURCE in PRICES_VERSION


def test_the_table_is_what_its_script_writes() -> None:
    assert TARGET.read_text(encoding="utf-8") == module_text(), "run python -m tools.price_table"


MAKERS = sorted((maker, name) for maker in ("anthropic", "openai", "google") for name in _sections()[maker])


@given(
    st.sampled_from(MAKERS),
    st.tuples(*[st.integers(0, 200_000)] * 5),
    st.datetimes(datetime(2024, 1, 1), datetime(2027, 6, 1), timezones=st.just(UTC)),
)
def test_it_agrees_with_the_library_it_is_made_from(
    model: tuple[str, str], tokens: tuple[int, int, int, int, int], at: datetime
) -> None:
    maker, name = model
    fresh, read, written_5m, written_1h, output = tokens
    theirs = genai_prices.Usage(  # their totals include the parts
        input_tokens=fresh + read + written_5m + written_1h,
        cache_read_tokens=read,
        cache_write_tokens=written_5m + written_1h,
        cache_write_1h_tokens=written_1h,
        output_tokens=output,
    )
    price = genai_prices.calc_price(theirs, name, provider_id=maker, genai_request_timestamp=at).total_price
    usage = Usage(fresh, read, written_5m, written_1h, output)
    assert cost_usd(f"{maker}/{name}", usage, at) == pytest.approx(float(price), rel=1e-9)


def test_every_entry_of_the_table_can_be_read_and_starts_with_a_price_that_always_holds() -> None:
    for names in _sections().values():
        for entry in names.values():
            prices = _read(entry)
            assert (prices[-1].first_day, prices[-1].minutes) == (None, None)
            for price in prices:
                sizes = [over for over, _ in price.tiers]
                assert sizes == sorted(set(sizes)) and all(min(rates) > 0 for _, rates in price.tiers)
