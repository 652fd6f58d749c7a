"""Advice: each rule fires at its threshold and not below, and points to its calls."""

from __future__ import annotations

from typing import Any

import pytest
from tests.quality.sessions import agent, human, report, request, tool

from demerit.quality.advice import MOST, RULES
from demerit.quality.report import Report


def rules(got: Report) -> list[str]:
    return [advice.rule for advice in got.advice]


def calls(*made: Any) -> Report:
    return report(human(), agent("", *made), agent("Done."))


NO_CODE = human("please fix the rounding for me")
NO_CODE_TOO = human("and change the colour of it too")
CODE = human("fix the rounding in src/cart.py please")


@pytest.mark.parametrize(
    ("rule", "fires", "stays"),
    [
        pytest.param(
            "model_breaks_tool_schema",
            calls(tool("Task", "invalid", input="a"), tool("Task", "invalid", input="b")),
            calls(tool("Task", "invalid", input="a"), tool("Edit", "invalid", input="b")),
            id="two broken calls of one tool, not one each of two",
        ),
        pytest.param(
            "same_call_fails_again",
            calls(*[tool(status="failed"), tool("Read", input="r")] * 3),
            calls(*[tool(status="failed"), tool("Read", input="r")] * 2),
            id="the same input failing three times, with other calls between",
        ),
        pytest.param(
            "same_call_fails_again",
            calls(*[tool(status="failed"), tool("Edit", "failed", files=["a.py"])] * 3),
            calls(*[tool(status="failed"), tool("Edit", files=["a.py"])] * 4),
            id="a command that is run again after each change is no repetition",
        ),
        pytest.param(
            "same_call_fails_again",
            calls(*[tool("Fetch", "failed"), tool("Edit", files=["a.py"])] * 3),
            calls(*[tool("Fetch", "failed"), tool("Edit", files=["a.py"])] * 2),
            id="a change to a file helps no other tool",
        ),
        pytest.param(
            "tool_always_fails",
            calls(*[tool("WebFetch", "failed", input=str(n)) for n in range(3)]),
            calls(*[tool("WebFetch", "failed", input=str(n)) for n in range(3)], tool("WebFetch", input="ok")),
            id="three runs and none that worked",
        ),
        pytest.param(
            "tool_always_fails",
            calls(*[tool("WebFetch", "failed", input=str(n)) for n in range(3)]),
            calls(*[tool("Bash", "failed", input=str(n)) for n in range(3)]),
            id="in a shell it is the commands that fail",
        ),
        pytest.param(
            "tool_always_fails",
            calls(*[tool("X", "failed", input=str(n)) for n in range(3)], tool("X", "declined", input="x")),
            calls(*[tool("X", "failed", input=str(n)) for n in range(2)], tool("X", "declined", input="x")),
            id="a declined call is no run",
        ),
        pytest.param(
            "user_declines_tool",
            calls(*[tool(status="declined", input=str(n)) for n in range(3)]),
            calls(*[tool(status="declined", input=str(n)) for n in range(2)]),
            id="three declined calls of one tool",
        ),
        pytest.param(
            "file_read_again",
            calls(*[tool("Read", files=["a.py"])] * 4),
            calls(*[tool("Read", files=["a.py"])] * 3),
            id="four reads of the same part",
        ),
        pytest.param(
            "file_read_again",
            calls(*[tool("Read", files=["a.py"])] * 4, tool("Edit", files=["a.py"])),
            calls(*([tool("Read", files=["a.py"])] * 2 + [tool("Edit", files=["a.py"])]) * 2),
            id="a change in between makes reading it again right",
        ),
        pytest.param(
            "file_read_again",
            calls(*[tool("Read", files=["a.py"])] * 4),
            calls(*[tool("Read", files=["a.py"], input=str(n)) for n in range(9)]),
            id="other parts of a long file are no repetition",
        ),
        pytest.param(
            "file_read_again",
            calls(*[tool("Read", files=["a.py"])] * 4),
            calls(*[tool("Read", files=["a.py"], input=None)] * 4),
            id="which part was read is not in the log",
        ),
        pytest.param(
            "prompts_name_no_code",
            report(NO_CODE, NO_CODE_TOO, CODE, agent("Done.")),
            report(NO_CODE, CODE, agent("Done.")),
            id="two prompts without code, and half of all",
        ),
        pytest.param(
            "prompts_repeat",
            report(CODE, CODE, CODE, agent("Done.")),
            report(CODE, CODE, agent("Done.")),
            id="two repeats",
        ),
        pytest.param(
            "context_overflows",
            report(human(), *[agent("x", usage=request(n)) for n in (100_000, 10_000, 90_000, 20_000)]),
            report(human(), *[agent("x", usage=request(n)) for n in (100_000, 10_000, 90_000, 80_000)]),
            id="two resets",
        ),
    ],
)
def test_a_rule_fires_at_its_threshold(rule: str, fires: Report, stays: Report) -> None:
    assert rule in rules(fires)
    assert rule not in rules(stays)


def test_an_advice_points_to_its_calls_and_names_what_it_is_about() -> None:
    got = calls(*[tool("WebFetch", "failed", input=str(n)) for n in range(3)])
    (advice,) = got.advice
    assert advice.text.startswith("WebFetch failed in all of its 3 calls")
    assert [ref.call for ref in advice.calls] == [0, 1, 2]


def test_a_broken_schema_is_charged_to_the_model_that_broke_it() -> None:
    got = report(
        human(),
        agent("", *[tool("Task", "invalid", input=str(n)) for n in range(2)], model="small-one"),
        agent("", tool("Task", input="c"), model="large-one"),
        agent("Done."),
    )
    assert got.advice[0].text.startswith("small-one broke 2 of its 2 calls of Task")


def test_a_session_gets_at_most_three_in_the_order_of_the_rules() -> None:
    got = report(
        NO_CODE,
        NO_CODE_TOO,
        NO_CODE,
        NO_CODE,
        agent("", *[tool("A", "invalid", input=str(n)) for n in range(2)]),
        agent("", *[tool("B", "failed")] * 3),
        agent("", *[tool("C", "declined", input=str(n)) for n in range(3)]),
    )
    order = [rule.__name__ for rule in RULES]
    assert len(got.advice) == MOST
    assert rules(got) == sorted(rules(got), key=order.index)
    assert rules(got) == ["model_breaks_tool_schema", "same_call_fails_again", "tool_always_fails"]


def test_a_good_session_gets_none() -> None:
    assert calls(tool()).advice == ()


def test_advice_never_scores() -> None:
    got = report(CODE, CODE, CODE, agent("Done."))
    assert got.advice
    assert got.score == 100
