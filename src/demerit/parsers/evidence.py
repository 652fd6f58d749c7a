"""What decides how a call went, and who wrote a prompt: the rules that all agents share.

A parser hands in what its agent logged (a flag, an exit code, a command, the first of the output) and gets a
status with the evidence for it. Words in an output decide nothing here.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from demerit.model import CallStatus, Category


class Judgement(NamedTuple):
    """A call's status, what decided it, and the exit code where there is one."""

    status: CallStatus
    evidence: str
    exit_code: int | None = None


# Programs for which exit code 1 is an answer ("nothing found", "differs", "false"), not a failure.
_ANSWERS_WITH_1 = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "ack",
        "zgrep",
        "pgrep",
        "pidof",
        "diff",
        "cmp",
        "colordiff",
        "test",
        "[",
        "[[",
        "which",
        "type",
        "command",
        "hash",
        "git-grep",
        "expr",
        "fuser",
        "lsof",
        "getent",
    ]
)
# Programs that say nothing and do not fail in practice: one of these before a benign one changes nothing.
_QUIET = frozenset(("cd pushd popd export set source . true : sleep echo printf pwd local unset env time").split())
_GIT_ANSWERS = re.compile(
    r"git\s+(?:-\S+\s+(?:\S+\s+)?)*?(?:grep\b|diff\b.*--(?:exit-code|quiet|check)\b|diff-index\b.*--quiet\b"
    r"|merge-base\b.*--is-ancestor\b|show-ref\b|ls-files\b.*--error-unmatch\b|check-ignore\b"
    r"|config\b.*(?:--get|\bget\b)|rev-parse\b.*--verify\b)"
)
# `gh auth status` and `ssh -T git@host` report with exit 1 that one is not signed in, or that there is no shell.
_OTHER_ANSWERS = re.compile(r"gh\s+auth\s+status\b|ssh\s+(?:\S+\s+)*?-T\b|systemctl\s+is-\w+\b")
_SHELL_COMPLAINS = re.compile(
    r"^(?:\S*\b(?:ba|z|da|k|)sh|\(eval\)|eval)\b:|^(?:usage:|error:|fatal:)|^\S+: (?:cannot|can't|unable|No such|"
    r"Permission|command not found|not found|invalid|illegal|unrecogni[sz]ed|unknown|option)|"
    r": No such file or directory$|: Permission denied$|: Operation not permitted$|: command not found$",
    re.MULTILINE | re.IGNORECASE,
)


def split_commands(command: str) -> list[tuple[str, str]]:
    """The simple commands of a shell line, each with the operator after it (`&&`, `||`, `|`, `;`, or "").

    Quotes and escapes are respected; here-documents and sub-shells are not taken apart.
    """
    parts: list[tuple[str, str]] = []
    start = at = 0
    quote = ""
    while at < len(command):
        char = command[at]
        if quote:
            if char == "\\" and quote == '"':
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "\\":
            at += 1
        elif char in ";\n|&":
            double = command[at : at + 2]
            operator = double if double in ("&&", "||") else char
            redirect = char == "&" and (command[at - 1 : at] in (">", "<") or command[at + 1 : at + 2] == ">")
            if not redirect:
                parts.append((command[start:at].strip(), ";" if operator in "\n&" else operator))
                at += len(operator) - 1
                start = at + 1
        at += 1
    parts.append((command[start:].strip(), ""))
    return [(text, operator) for text, operator in parts if text]


def program(simple: str) -> str:
    """The program that a simple command runs, without its path, assignments before it and `sudo`."""
    for word in simple.split():
        if re.match(r"[A-Za-z_]\w*=", word) or word in ("sudo", "time", "exec", "!", "if", "while", "then"):
            continue
        return word.rsplit("/", 1)[-1].strip("(){}")
    return ""


def _answers_with_1(simple: str) -> bool:
    return (
        program(simple) in _ANSWERS_WITH_1
        or bool(_GIT_ANSWERS.match(simple.removeprefix("sudo ")))
        or bool(_OTHER_ANSWERS.match(simple))
    )


def is_benign_exit(command: str, exit_code: int, output: str) -> bool:
    """Whether exit 1 only says "nothing found" or "differs".

    The command that gave the exit code is the last one; in `a && b` it may be any of the chain, so all of it
    has to be of that kind, or quiet. An error text of the shell or of the program makes it a failure.
    """
    if exit_code != 1 or len(command) > 20_000 or _SHELL_COMPLAINS.search(output):
        return False
    commands = split_commands(command)
    if not commands:
        return False
    last = commands.pop()[0]
    if not _answers_with_1(last):
        return False
    for text, operator in reversed(commands):
        if operator == ";":
            break
        if operator == "&&" and not (_answers_with_1(text) or program(text) in _QUIET):
            return False
    return True


def by_exit_code(command: str | None, exit_code: int, output: str, source: str = "exit code") -> Judgement:
    """Status of a shell command that ran to its end. `source` says where the code stood."""
    evidence = f"{source} {exit_code}"
    if exit_code == 0:
        return Judgement(CallStatus.OK, evidence, 0)
    if command and is_benign_exit(command, exit_code, output):
        return Judgement(CallStatus.BENIGN, f"{evidence} of {program(split_commands(command)[-1][0])}", exit_code)
    return Judgement(CallStatus.FAILED, evidence, exit_code)


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
    known = _CATEGORIES.get(name.lower())
    if known is not None:
        return known
    return "mcp" if name.startswith("mcp__") else "other"


_POLLS = frozenset("bashoutput taskoutput agentoutputtool wait wait_agent read_background_output".split())


def is_poll(name: str, arguments: Any) -> bool:
    """Whether a call only waits for, or looks at, something that is still running.

    It does nothing of its own, so parsers record no input hash for it, and a row of polls is no row of retries.
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


_PATCH_HEADER = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)


def patch_paths(patch: str) -> tuple[str, ...]:
    """The files that an `apply_patch` text touches, each once, renames under both names."""
    return tuple(dict.fromkeys(_PATCH_HEADER.findall(patch)))


# --- Claude Code's fixed texts, which stand in its logs and in message lists that its SDK writes --------------

INTERRUPT = "[Request interrupted by user"
_DECLINED = (
    "The user doesn't want to proceed with this tool use",
    "The user doesn't want to take this action right now",
    "User rejected",
    "The user chose not to",
)
_NO_PERMISSION = re.compile(
    r"you haven't granted it yet|^(?:Error: )?This command requires approval|"
    r"The following parts? (?:of this command )?requires? approval|^Permission (?:to use|for this) .{0,200}denied|"
    r"denied by (?:your|the user's) permission settings|^(?:Error: )?\S+ hook (?:blocking error|denied)|"
    r"^Hook \S+ denied this tool",
    re.MULTILINE,
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
    return text[:80].splitlines()[0].removesuffix("</tool_use_error>")


def by_claude_error(text: str, command: str | None = None, began: bool = False) -> Judgement:
    """Status of a call whose result carries the error flag, by how its text begins.

    command: of a shell call. began: the log shows that the tool had begun to run.
    """
    text = text.removeprefix("<tool_use_error>")
    if text.startswith(_NEVER_RAN):
        return Judgement(CallStatus.CANCELLED, f"text: {_first_line(text)}")
    if text.startswith(_DECLINED):
        # Esc on a running tool writes the same text as a refusal.
        if began:
            return Judgement(CallStatus.CANCELLED, "refusal text after the tool had begun")
        return Judgement(CallStatus.DECLINED, "text: the user said no")
    if _NO_PERMISSION.search(text):
        return Judgement(CallStatus.DECLINED, "text: permission not given")
    if BROKEN_CALL.match(text):
        return Judgement(CallStatus.INVALID, f"text: {_first_line(text)}")
    code = _EXIT_CODE.match(text)
    if code is not None:
        return by_exit_code(command, int(code[1]), text[code.end() :])
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
_WRAPPERS = (
    "system-reminder",
    "environment_details",
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "new-diagnostics",
    "post-tool-use-hook",
)


def starts_with_any(text: str, prefixes: tuple[str, ...]) -> bool:
    """Whether the text, leading blanks aside, begins with one of the prefixes."""
    return text.startswith(prefixes) or (text[:1].isspace() and text.lstrip().startswith(prefixes))


def is_harness_text(text: str) -> bool:
    """Whether a text under the role of the user was put there by the program: nobody typed it."""
    return starts_with_any(text, _HARNESS_TEXTS)


def without_wrappers(text: str) -> str:
    """`text` without the blocks that a program puts around what a person typed; empty when nothing else is there."""
    kept = text
    for tag in _WRAPPERS if "<" in text else ():
        opening, closing = f"<{tag}>", f"</{tag}>"
        first, *others = kept.split(opening)
        pieces = (other.partition(closing) for other in others)
        kept = first + "".join(after if closed else opening + inside for inside, closed, after in pieces)
    return text if kept == text else kept.strip()
