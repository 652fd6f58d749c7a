"""An agent of LangGraph with one tool, its model through `langchain-openai`."""

from __future__ import annotations

from typing import Any

import openai
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import SecretStr
from tests.proxy.clients.running import run

STEPS = 14
"""Of the graph; a model that never ends would be asked seven times."""


@tool
def write_note(text: str) -> str:
    """Write a note."""
    return f"{len(text)} characters written"


def agent(url: str, model: str, streaming: bool) -> Any:
    chat = ChatOpenAI(
        model=model, base_url=url, api_key=SecretStr("sk-of-a-test"), max_retries=0, streaming=streaming
    ).bind_tools([write_note])

    def think(state: MessagesState) -> dict[str, list[AIMessage]]:
        return {"messages": [chat.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([write_note]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile()


def _ran(url: str, model: str, streaming: bool) -> list[dict[str, object]]:
    found = agent(url, model, streaming).invoke({"messages": [("user", "Write it down.")]}, {"recursion_limit": STEPS})
    return [
        {"kind": message.type, "text": message.content, "calls": getattr(message, "tool_calls", None)}
        for message in found["messages"]
    ]


def works(url: str) -> list[Any]:
    """A model that makes one call and then answers: whole, and streamed."""
    return [_ran(url, "writes-once", streaming) for streaming in (False, True)]


def loops(url: str) -> object:
    """A model that makes the same call until it is told: the last message, or how it ended."""
    try:
        return _ran(url, "stuck", False)[-1]["text"]
    except GraphRecursionError:
        return "the recursion limit"
    except openai.BadRequestError as error:
        return error.code


if __name__ == "__main__":
    run({"works": works, "loops": loops})
