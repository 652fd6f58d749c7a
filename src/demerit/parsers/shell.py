"""What the exit code of a shell line says: which of its commands gave it, and whether it is a failure or an answer."""

from __future__ import annotations

import re

# Programs for which exit code 1 is an answer ("nothing found", "differs", "false"), not a failure.
_ANSWER_WITH_1 = frozenset(
    (
        "grep egrep fgrep rg ag ack zgrep pgrep pkill pidof diff cmp colordiff test [ [[ which type hash expr fuser "
        "lsof getent"
    ).split()
)
# Git's commands that answer with 1, each with the options of which one has to be there (none: it always answers).
_GIT_ANSWERS: dict[str, tuple[str, ...]] = {
    "grep": (),
    "check-ignore": (),
    "show-ref": (),
    "diff": ("--exit-code", "--quiet", "--check"),
    "diff-index": ("--quiet", "--exit-code"),
    "merge-base": ("--is-ancestor",),
    "ls-files": ("--error-unmatch",),
    "rev-parse": ("--verify",),
}
# Git's commands that fail with 128 and never with 1.
_GIT_NEVER_1 = frozenset("log status show ls-files ls-tree rev-list shortlog for-each-ref".split())
_GIT_OPTIONS_WITH_VALUE = ("-c", "-C", "--git-dir", "--work-tree", "--namespace")
_REDIRECT = re.compile(r"\d?>{1,2}(&\d)?")
# `gh auth status` and `ssh -T git@host` report with exit 1 that one is not signed in, or that there is no shell.
_OTHER_ANSWERS = re.compile(r"gh\s+auth\s+status\b|ssh\s+(?:\S++\s++){0,20}?-T\b|command\s+-[vV]\b")
# systemctl answers "not active" and "unknown" with codes of their own.
_SYSTEMCTL_ASKS = re.compile(r"systemctl\s+(?:--\S+\s+)*is-\w+\b")
# Programs that do not fail without a word: one of these beside a command is not what gave the code.
_QUIET = frozenset("cd pushd popd export set source . true : sleep echo printf pwd local unset env".split())
_COMPLAINS = re.compile(
    r"^(?:\S*\b(?:ba|z|da|k|)sh|\(eval\)|eval)\b:|^(?:usage:|error:|fatal:)|^\S+: (?:cannot|can't|unable|No such|"
    r"Permission|command not found|not found|invalid|illegal|unrecogni[sz]ed|unknown|option)|"
    r": No such file or directory$|: Permission denied$|: Operation not permitted$|: command not found$",
    re.MULTILINE | re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_PREFIXES = frozenset("sudo time exec nohup nice stdbuf env command timeout xargs ! if while until then".split())
# Their options that are followed by a value.
_WITH_VALUE = {
    "xargs": ("-I", "-n", "-P", "-L", "-s", "-d"),
    "timeout": ("-s", "-k"),
    "nice": ("-n",),
    "sudo": ("-u", "-g"),
    "env": ("-u", "-C"),
}
_DURATION = re.compile(r"[\d.]+[smhd]?\Z")
# Programs whose first word says what they do.
_WITH_VERBS = frozenset(
    "npm pnpm yarn bun npx git gh cargo go uv pip docker kubectl make just gradle mvn dotnet".split()
)
# Longer lines are scripts; to take one apart for its last command is not worth the time.
_MOST_CHARS = 20_000


def split_commands(line: str) -> list[tuple[str, str]]:
    """The simple commands of a shell line, each with the operator after it (`&&`, `||`, `|`, `;`, or "").

    Quotes and escapes are respected; here-documents and sub-shells are not taken apart.
    """
    parts: list[tuple[str, str]] = []
    start = at = 0
    quote = ""
    while at < len(line):
        char = line[at]
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
            double = line[at : at + 2]
            operator = double if double in ("&&", "||") else char
            redirects = char == "&" and (line[at - 1 : at] in (">", "<") or line[at + 1 : at + 2] == ">")
            if not redirects:
                parts.append((line[start:at].strip(), ";" if operator in "\n&" else operator))
                at += len(operator) - 1
                start = at + 1
        at += 1
    parts.append((line[start:].strip(), ""))
    return [(text, operator) for text, operator in parts if text]


_KEYWORDS = frozenset("fi done esac exit return } ) else do in".split())
_INNER = re.compile(r"\s*(?:\S*/)?(?:ba|z|da)?sh\s+-[a-z]*c\s+(?:'([^']*)'|\"((?:[^\"\\]|\\.)*)\")\s*\Z", re.DOTALL)


def _inner(line: str) -> str:
    """The line that `bash -lc "..."` runs; any other line itself."""
    found = _INNER.match(line) if "sh" in line[:40] else None
    return line if found is None else found[1] or (found[2] or "").replace('\\"', '"')


def unwrapped(simple: str) -> str:
    """A simple command without what only sets the stage: assignments, `sudo`, `timeout 5`, `env A=1`, `xargs -n 1`."""
    words = simple.strip("(){} ").split()
    at = 0
    while at < len(words) - 1:
        word = words[at]
        if word == "command" and words[at + 1] in ("-v", "-V"):
            break
        if not (word in _PREFIXES or _ASSIGNMENT.match(word)):
            break
        at += 1
        options = _WITH_VALUE.get(word, ())
        while at < len(words) - 1 and words[at].startswith("-") and word != "command":
            at += 2 if words[at] in options and at < len(words) - 2 else 1
        if word == "timeout" and at < len(words) - 1 and _DURATION.match(words[at]):
            at += 1
    return " ".join(words[at:])


def program(simple: str) -> str:
    """The program that a simple command runs, without its path; empty for no command."""
    return unwrapped(simple).partition(" ")[0].rsplit("/", 1)[-1]


def describe(line: str) -> str:
    """The programs that may have given a line's exit code, with their verbs: `pytest`, `git push && npm test`.

    At most three; empty when there is none to name.
    """
    found: list[str] = []
    commands = split_commands(_inner(line[:_MOST_CHARS]))
    for at in range(len(commands) - 1, -1, -1):
        text, after = commands[at]
        if at < len(commands) - 1 and found and after not in ("&&", "|"):
            break
        words = unwrapped(text).split()
        name = words[0].rsplit("/", 1)[-1] if words else ""
        if (found and after == "|") or name in _QUIET or name in _KEYWORDS or not name:
            continue
        has_verb = name in _WITH_VERBS and len(words) > 1 and re.fullmatch(r"[a-z][a-z:-]{1,20}", words[1])
        found.insert(0, f"{name} {words[1]}" if has_verb else name[:40])
    return " && ".join(found[-3:])


def _git_verb(words: list[str]) -> tuple[str, list[str]]:
    """The verb of a git command, and what follows it. words: those after `git`."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _GIT_OPTIONS_WITH_VALUE else 1
    return (words[at], words[at + 1 :]) if at < len(words) else ("", [])


def _git_answers(words: list[str]) -> bool:
    """Whether exit 1 of a git command is an answer. words: those after `git`."""
    verb, rest = _git_verb(words)
    if verb == "config":  # one name and no value asks
        names = [word for word in rest if not word.startswith("-") and not _REDIRECT.match(word)]
        return any(word.startswith("--get") or word == "get" for word in rest) or len(names) == 1
    needed = _GIT_ANSWERS.get(verb)
    return needed is not None and (not needed or not set(needed).isdisjoint(rest))


def _never_1(git: str) -> bool:
    verb, rest = _git_verb(unwrapped(git).split()[1:])
    return verb in _GIT_NEVER_1 and "--error-unmatch" not in rest


def _answers(simple: str, exit_code: int) -> bool:
    bare = unwrapped(simple)
    if _SYSTEMCTL_ASKS.match(bare):
        return exit_code in (1, 3, 4)
    if exit_code == 123 and "xargs" in simple.split():  # xargs' word for: one of them gave 1 to 125
        exit_code = 1
    if exit_code != 1:
        return False
    name = program(bare)
    if name == "git":
        return _git_answers(bare.split()[1:])
    return name in _ANSWER_WITH_1 or bool(_OTHER_ANSWERS.match(bare))


def answering_program(line: str, exit_code: int, output: str) -> str | None:
    """The program whose non-zero exit only says "nothing found" or "differs"; None when it is a failure.

    The code is that of the last pipeline's last command. In `a && b` it may be any of the chain: a quiet command
    (`echo found`) did not give it, and all the others have to be of that kind. A complaint of the shell or of a
    program in the output makes it a failure.
    """
    if not 0 < exit_code < 124 or len(line) > _MOST_CHARS or _COMPLAINS.search(output):
        return None
    found: str | None = None
    commands = split_commands(_inner(line))
    for at in range(len(commands) - 1, -1, -1):
        text, after = commands[at]
        if at < len(commands) - 1:
            if after == "|":
                continue
            if after != "&&":
                break
        name = program(text)
        # What cannot have given the code. The last of a line is what gave it, whatever it is.
        if name in _QUIET or (name == "git" and after and exit_code == 1 and _never_1(text)):
            continue
        if not _answers(text, exit_code):
            return None
        found = found or program(text)
    return found
