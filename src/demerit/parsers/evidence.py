"""What decides how a call went, and who wrote a prompt: the rules that all agents share.

A parser hands in what its agent logged (a flag, an exit code, a command, the first of the output) and gets a
status with the evidence for it. Words in an output decide nothing here.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from demerit.model import CallStatus, Category
from demerit.parsers.shell import answering_program, describe


class Judgement(NamedTuple):
    """A call's status, what decided it, and the exit code where there is one."""

    status: CallStatus
    evidence: str
    exit_code: int | None = None


PENDING = Judgement(CallStatus.PENDING, "no result in the log")


def by_exit_code(command: str | None, exit_code: int, output: str, source: str = "exit code") -> Judgement:
    """Status of a shell command that ran to its end. `source` says where the code stood."""
    if exit_code == 0:
        return Judgement(CallStatus.OK, f"{source} 0", 0)
    answers = answering_program(command, exit_code, output) if command else None
    if answers is not None:
        return Judgement(CallStatus.BENIGN, f"{source} {exit_code} of {answers}", exit_code)
    name = describe(command) if command else ""
    return Judgement(CallStatus.FAILED, f"{source} {exit_code}" + (f" of {name}" if name else ""), exit_code)


# --- tools ------------------------------------------------------------------------------------------------

_CATEGORIES: dict[str, Category] = {}
for _category, _names in {
    "read": "read readfile read_file view cat notebookread read_many_files view_image open_file fs_read "
    "readmcpresource",
    "search": "grep glob ls search find rg list_directory list_files search_files search_file_content codebase_search "
    "file_search grep_search list_dir toolsearch tool_search search_tools",
    "edit": "edit multiedit apply_patch applypatch str_replace str_replace_editor str_replace_based_edit_tool "
    "notebookedit replace edit_file search_replace replace_in_file apply_diff insert patch",
    "write": "write write_file writefile create create_file write_to_file save_file",
    "shell": "bash bashoutput killshell killbash shell shell_command exec exec_command write_stdin run execute "
    "run_shell_command local_shell local_shell_call execute_command run_terminal_cmd terminal powershell "
    "container.exec unified_exec run_command code_interpreter_call code_execution "
    "bash_code_execution taskoutput taskstop",
    "web": "webfetch websearch web_search web_fetch fetch google_web_search web_search_call file_search_call browser",
    "agent": "task agent send_message followup_task list_agents interrupt_agent "
    "spawn_agent wait wait_agent close_agent send_input resume_agent delegate subagent new_task",
    "plan": "todowrite todoread exitplanmode enterplanmode update_plan todo taskcreate taskupdate tasklist taskget "
    "create_goal update_goal get_goal",
    "question": "askuserquestion ask_user request_user_input ask_followup_question",
}.items():
    _CATEGORIES.update(dict.fromkeys(_names.split(), _category))  # type: ignore[arg-type]


def category_of(name: str) -> Category:
    """What kind of work the tool of this name does, over all agents; `mcp` for a server's tool."""
    known = _CATEGORIES.get(name) or _CATEGORIES.get(name.lower())
    if known is not None:
        return known
    return "mcp" if name.startswith("mcp__") else "other"


_SERVER_KEYS = ("server_name", "serverName", "ServerName", "server")


def server_in(category: Category, arguments: Any) -> str | None:
    """The MCP server that a tool for calling any server's tools was given; None for other tools."""
    if category != "mcp" or not isinstance(arguments, dict):
        return None
    return next((arguments[key] for key in _SERVER_KEYS if isinstance(arguments.get(key), str)), None) or None


_POLLS = frozenset(
    (
        "bashoutput taskoutput task_output agentoutputtool wait wait_agent read_background_output read_shell "
        "list_background_processes await poll"
    ).split()
)


def is_poll(name: str, arguments: Any) -> bool:
    """Whether a call only waits for, or looks at, something that is still running.

    Such a call ends no run of failures, and is no retry (docs/decisions/004).
    """
    if name == "write_stdin":
        return not (isinstance(arguments, dict) and arguments.get("chars"))
    return name.lower() in _POLLS


_PATH_KEYS = frozenset(("file_path", "path", "filePath", "notebook_path", "absolute_path", "filename", "file"))
_PATHS_KEYS = frozenset(("paths", "file_paths", "files"))


def paths_in(arguments: Any) -> tuple[str, ...]:
    """The files that a tool's decoded arguments name, each once; those of a patch text come from `patch_paths`."""
    if not isinstance(arguments, dict):
        return ()
    found = []
    for key, value in arguments.items():
        if key in _PATH_KEYS and isinstance(value, str) and value:
            found.append(value)
        elif key in _PATHS_KEYS and isinstance(value, list):
            found += [item for item in value if isinstance(item, str) and item]
    return tuple(dict.fromkeys(found)) if len(found) > 1 else tuple(found)


_PATCH_HEADER = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): ([^\n]+)", re.MULTILINE)


def patch_paths(patch: str) -> tuple[str, ...]:
    """The files that an `apply_patch` text touches, each once, renames under both names."""
    return tuple(dict.fromkeys(path for name in _PATCH_HEADER.findall(patch) if (path := name.strip())))


# --- Claude Code's fixed texts, which stand in its logs and in message lists that its SDK writes --------------

INTERRUPT = "[Request interrupted by user"
_DECLINED = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "User rejected",
    "The user chose not to",
)
# All at the start of the text: in the output of a command they are words like any other.
_NO_PERMISSION = re.compile(
    r"Claude requested permissions? to .{0,500}you haven't granted it yet|(?:Error: )?This command requires approval|"
    r"(?:Error: )?(?:This|The) .{0,300}requires? approval|Permission (?:to use|for this) .{0,300}denied|"
    r"(?:Error: )?\S+ hook (?:blocking error|denied)|Hook \S+ denied this tool",
    re.DOTALL,
)
_NEVER_RAN = (
    "Sibling tool call errored",
    "Cancelled: parallel tool call",
    "Permission prompt was aborted",
    INTERRUPT,
)
BROKEN_CALL = re.compile(
    r"InputValidationError|(?:Error: )?No such tool available|Unknown (?:skill|tool|slash command)|"
    r"MCP error -3260[12]\b"
)
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,5})\b")


def _first_line(text: str) -> str:
    return next(iter(text[:80].splitlines()), "").removesuffix("</tool_use_error>")


def by_claude_error(text: str, command: str | None = None, began: bool = False) -> Judgement:
    """Status of a call whose result carries the error flag, by how its text begins.

    command: of a shell call. began: the log shows that the tool had begun to run.
    """
    code = _EXIT_CODE.match(text)
    if code is not None:
        rest = text[code.end() :].lstrip()
        if rest.startswith(INTERRUPT):
            return Judgement(CallStatus.CANCELLED, f"exit code {code[1]} by an interrupt", int(code[1]))
        return by_exit_code(command, int(code[1]), rest)
    stripped = text.removeprefix("<tool_use_error>")
    if stripped.startswith(_NEVER_RAN):
        return Judgement(CallStatus.CANCELLED, f"text: {_first_line(stripped)}")
    if stripped.startswith(_DECLINED):
        # Esc on a running tool writes the same text as a refusal.
        if began:
            return Judgement(CallStatus.CANCELLED, "refusal text after the tool had begun")
        return Judgement(CallStatus.DECLINED, "text: the user said no")
    if _NO_PERMISSION.match(stripped):
        return Judgement(CallStatus.DECLINED, "text: permission not given")
    if BROKEN_CALL.match(stripped):
        return Judgement(CallStatus.INVALID, f"text: {_first_line(stripped)}")
    if text.startswith("<tool_use_error>"):
        return Judgement(CallStatus.FAILED, f"is_error true: {_first_line(stripped)}")
    if command and text.strip() == "Error" and answering_program(command, 1, "") is not None:
        # What older versions wrote for a command that failed without a word.
        return Judgement(CallStatus.BENIGN, "is_error true without a word, of a command that answers so")
    return Judgement(CallStatus.FAILED, "is_error true")


# --- prompts ----------------------------------------------------------------------------------------------

SUMMARIES = (
    "This session is being continued from a previous conversation",
    "[CONTEXT COMPACTION",
    "Another language model started to solve this problem and produced a summary",
    "The conversation history before this point was compacted",
)
"""How Claude Code, Hermes, Codex and pi open the summary that takes the place of what was said before."""

_HARNESS_TEXTS = (
    "<local-command-",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<agent-notification>",
    "<teammate-message",
    "<user-prompt-submit-hook>",
    "<user-memory-input>",
    "<session-start-hook>",
    "<environment_context>",
    "<tick>",
    '{"task_id":',
    "Caveat: The messages below were generated by the user while running local commands",
    "Stop hook feedback:",
    "Base directory for this skill:",
    "[Image: source:",
    "Your tool call was malformed and could not be parsed",
)
_OPENING_TAG = re.compile(r"\s*<([\w-]+)[\s>]")
_WRAPPERS = (
    "system-reminder",
    "environment_details",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "post-tool-use-hook",
    "hook_context",
    "qwen:user-prompt-submit-context",
    "qwen:session-start-context",
)


def starts_with_any(text: str, prefixes: tuple[str, ...]) -> bool:
    """Whether the text, leading blanks aside, begins with one of the prefixes."""
    return text.startswith(prefixes) or (text[:1].isspace() and text.lstrip().startswith(prefixes))


def is_harness_text(text: str) -> bool:
    """Whether a text under the role of the user was put there by the program: nobody typed it."""
    if not starts_with_any(text, _HARNESS_TEXTS):
        return False
    tag = _OPENING_TAG.match(text)  # a person may write about such a tag, but does not close it
    return tag is None or f"</{tag[1]}" in text


def without_wrappers(text: str) -> str:
    """`text` without the blocks that a program puts around what a person typed; empty when nothing else is there."""
    kept = text
    for tag in _WRAPPERS if "<" in text else ():
        opening, closing = f"<{tag}>", f"</{tag}>"
        first, *others = kept.split(opening)
        pieces = (other.partition(closing) for other in others)
        kept = first + "".join(after if closed else opening + inside for inside, closed, after in pieces)
    return text if kept == text else kept.strip()


# --- requests ---------------------------------------------------------------------------------------------

_CLINE = re.compile(r"You are (?:Roo|Cline|Kilo Code)\b")


def is_cline_request(value: Any) -> bool:
    """Whether it is a request of Cline, Roo or Kilo: by its system prompt, and the tag around what was typed."""
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or len(messages) < 2 or not all(isinstance(one, dict) for one in messages[:2]):
        return False
    system, task = (_opening(one.get("content")) for one in messages[:2])
    return bool(_CLINE.match(system)) and task.startswith("<task>")


def _opening(content: Any) -> str:
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""


MINI_RETURNCODE = re.compile(
    r"(?:<exception>.{0,4000}?</exception>\s*)?<returncode>(-?\d{1,9})</returncode>", re.DOTALL
)


def is_mini_result(message: Any) -> bool:
    """Whether it is how mini-swe-agent tells its model what a command gave."""
    if not isinstance(message, dict) or message.get("role") != "user":
        return False
    text = message.get("content")
    return isinstance(text, str) and MINI_RETURNCODE.match(text) is not None
