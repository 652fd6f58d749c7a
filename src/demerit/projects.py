"""Which project a working folder belongs to: the repository that it is a clone of, or the folder itself.

Git's own files are read and no git is run: the working folder may come from a hostile log, or from another machine.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from ipaddress import IPv6Address
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote

KEY_BYTES = 1024
"""Most bytes of a key, in UTF-8. For what is longer, its beginning and a digest stand."""

_NAME_LETTERS = 200
_POINTER_BYTES = 1 << 14
_CONFIG_BYTES = 1 << 20
# No system opens a longer one.
_PATH_LETTERS = 1 << 15

_DRIVE = re.compile(r"[a-z]:[\\/]", re.IGNORECASE)
_SECTION = re.compile(r'\s*\[\s*([\w.-]+)\s*(?:"((?:[^"\\]|\\.)*)"\s*)?\]')
_ENTRY = re.compile(r"\s*([a-z][a-z0-9-]*)\s*=(.*)", re.IGNORECASE | re.DOTALL)
_PIECE = re.compile(r'\\(.)|(["#;])|([^\\"#;]+)', re.DOTALL)
_URL = re.compile(r"([a-z][a-z0-9+.-]+)://(?:[^/]*@)?(\[[^\]/]*\]|[^:/@\[\]]*)(?::(\d*))?(?:/(.*))?", re.IGNORECASE)
# A single letter is no host but a drive; `::` hands the rest to a program; `://` is a URL that is broken.
_SCP = re.compile(r"(?:[^/:]*@)?(\[[^\]/]+\]|[^:/\[\]@]{2,}):(?!:|//)(.*)")
_HOST = re.compile(r"[\w-][\w.-]*")

_PORTS = {"ssh": "22", "git+ssh": "22", "ssh+git": "22", "git": "9418", "http": "80", "https": "443"}
"""The ways to reach one and the same repository, with their default ports."""
_SSH_ON_443 = {
    "ssh.github.com": "github.com",
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}
"""Hosts that answer SSH on the port of HTTPS, for networks that let nothing else out."""
_ANY_CASE = frozenset({"github.com", "gitlab.com", "bitbucket.org"})
"""Hosts for which `Owner/Repo` is `owner/repo`."""


class Project(NamedTuple):
    key: str
    """`https://HOST/PATH` of a remote, however it is reached; the absolute path of a folder, on its own machine."""
    name: str
    """For people: the last part of that."""
    kind: Literal["remote", "folder"]


class Projects:
    """Projects by working folder. Answers are remembered: make another one where repositories may have changed."""

    def __init__(self, home: Path | None) -> None:
        """home: the user's. A repository there, as of dotfiles, counts for no folder below, and none above it does."""
        self._found: dict[str, Project | None] = {}
        above = (
            chain.from_iterable(path.parents for path in (home.absolute(), Path(os.path.realpath(home))))
            if home
            else ()
        )
        self._above = {_identity(str(path)) for path in above} - {None}
        self._home = _identity(str(home)) if home else None

    def of(self, cwd: str | None) -> Project | None:
        """The project of a working folder, which need not exist (any more, or on this machine). Never raises.

        None when there is no folder, or one that is not absolute: it could be anywhere.
        """
        if not cwd:
            return None
        if cwd not in self._found:
            self._found[cwd] = self._find(cwd)
        return self._found[cwd]

    def _find(self, cwd: str) -> Project | None:
        path = _normal(cwd.replace("\0", "\N{REPLACEMENT CHARACTER}"))
        if path is None:
            return None
        is_of_this_system = path.startswith("/") == (os.name != "nt")
        if is_of_this_system and "\0" not in cwd and len(cwd) < _PATH_LETTERS and not _is_share(path):
            with suppress(OSError, ValueError):  # ValueError: no name that this system could have
                return self._repository(path) or _folder(path)
        return _folder(path)

    def _repository(self, cwd: str) -> Project | None:
        for folder in _upwards(cwd):
            here = _identity(folder)  # not by name: one folder may have several
            if here is None:
                continue
            if here in self._above or (here == self._home and folder != cwd):
                return None
            git = _git_folder(folder)
            if git is not None:
                return _project(folder, git)
        return None


def canonical(url: str) -> str | None:
    """The one address of a repository on a server, for all ways to write it, without credentials.

    None when it is on no server, or cannot be understood.
    """
    scp = None if (match := _URL.fullmatch(url)) else _SCP.fullmatch(url)
    if match:
        scheme, host, port, path = match[1].lower(), match[2], match[3] or "", match[4] or ""
    elif scp:
        scheme, host, port, path = "ssh", scp[1], "", scp[2]
    else:
        return None
    at = _host(host)
    if at is None or scheme == "file" or not url.isprintable():
        return None
    port = port.lstrip("0")
    if port == "443" and scheme != "https" and at in _SSH_ON_443:
        at, port = _SSH_ON_443[at], ""
    if port == _PORTS.get(scheme):
        port = ""
    if scheme in ("http", "https"):
        path = re.split("[?#]", path)[0]
    path = re.sub("://[^/]*@", "://", path)  # the address behind a mirror's own
    path = "/".join(filter(None, path.split("/")))
    path = (_lower(path) if at in _ANY_CASE else path).removesuffix(".git").rstrip("/")
    if not path:
        return None
    return f"{'https' if scheme in _PORTS else scheme}://{at}{port and f':{port}'}/{path}"


def _host(text: str) -> str | None:
    if text.startswith("["):
        try:
            return f"[{IPv6Address(text[1:-1]).compressed}]"
        except ValueError:
            return None
    return _lower(text).removesuffix(".") if _HOST.fullmatch(text) else None


def _lower(text: str) -> str:
    """Only ASCII: some other letters become an ASCII one, and another name the same."""
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


# --- folders ----------------------------------------------------------------------------------------------


def _folder(path: str) -> Project:
    name = (ntpath if _is_of_windows(path) else posixpath).basename(path) or path
    return Project(_bounded(path), _storable(name.removesuffix(".git") or name)[:_NAME_LETTERS], "folder")


def _bounded(key: str) -> str:
    text = _storable(key)
    if len(text.encode()) <= KEY_BYTES:
        return text
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{text.encode()[: KEY_BYTES - 19].decode('utf-8', 'ignore')}\N{HORIZONTAL ELLIPSIS}{digest}"


def _storable(text: str) -> str:
    """Without halves of characters: the name of a folder need not be text."""
    return text.encode("utf-8", "replace").decode()


def _normal(path: str) -> str | None:
    """An absolute path without `.`, `..` and doubled separators, of whatever system it is; None when not absolute."""
    if path.startswith("\\\\?\\") and _DRIVE.match(path, 4):
        path = path[4:]
    if _DRIVE.match(path):
        return ntpath.normpath(path[0].upper() + path[1:])
    if path.startswith("\\\\"):
        return ntpath.normpath(path)
    return posixpath.normpath("/" + path.lstrip("/")) if path.startswith("/") else None


def _is_of_windows(path: str) -> bool:
    return not path.startswith("/")


def _is_share(path: str) -> bool:
    """Whether to look there is to call another machine, which a log must not make us do."""
    return os.name == "nt" and path.startswith(("\\\\", "//"))


def _upwards(path: str) -> Iterator[str]:
    yield path
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


# --- git --------------------------------------------------------------------------------------------------


def _project(folder: str, git: str) -> Project:
    """folder: the root of a working tree. git: where its `.git` is, or should be."""
    shared = _shared_folder(git)
    config = _config(_read(os.path.join(shared, "config"), _CONFIG_BYTES))
    remote = canonical(config.origin)
    if remote is not None:
        return Project(_bounded(remote), _storable(remote.rpartition("/")[2])[:_NAME_LETTERS], "remote")
    root = _local_origin(config.origin, folder)
    if root is None:
        root = folder if shared == git else _main_tree(shared, config)
    return _folder(root if _is_share(root) else os.path.realpath(root))


def _git_folder(root: str) -> str | None:
    """The folder that `.git` is or names; None when `root` is the root of nothing."""
    path = os.path.join(root, ".git")
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return None
    if is_folder:
        return path if os.path.lexists(os.path.join(path, "HEAD")) else None
    named = _read(path, _POINTER_BYTES)
    if not named.startswith("gitdir:"):
        return None
    git = os.path.normpath(os.path.join(root, named.removeprefix("gitdir:").strip()))
    return path if _is_share(git) else git


def _shared_folder(git: str) -> str:
    """What all worktrees of a repository share; `git` itself where it has no worktrees or is the main one's."""
    named = _read(os.path.join(git, "commondir"), _POINTER_BYTES).strip()
    if named:
        shared = os.path.normpath(os.path.join(git, named))
        return git if _is_share(shared) else shared
    above, folder = os.path.split(os.path.dirname(git))
    is_pruned = folder == "worktrees" and os.path.basename(above) == ".git" and not os.path.exists(git)
    return above if is_pruned else git


def _main_tree(shared: str, config: _Config) -> str:
    """The folder that stands for a repository of which we saw a worktree."""
    if os.path.basename(shared).startswith("."):  # `.git`, or a bare one that is kept out of sight, like `.bare`
        return os.path.dirname(shared)
    return os.path.normpath(os.path.join(shared, config.worktree))


def _local_origin(url: str, folder: str) -> str | None:
    """The folder that a repository was cloned from; None when it was not cloned from a folder."""
    if url[:7].lower() == "file://":
        url = unquote(url[7:])
        url = url[1:] if _DRIVE.match(url, 1) else url
    path = _normal(os.path.join(folder, url) if url.startswith(".") else url)
    return None if path is None else re.sub(r"(?<=.)[\\/]\.git$", "", path)


class _Config(NamedTuple):
    origin: str
    """URL, empty where there is none."""
    worktree: str
    """Empty where it is beside."""


def _config(text: str) -> _Config:
    origin = worktree = ""
    bases: dict[str, str] = {}
    for section, of, key, value in _entries(text):
        if (section, of, key) == ("remote", "origin", "url"):
            origin = origin or value
        elif (section, key) == ("url", "insteadof") and value:
            bases.setdefault(value, of)
        elif (section, key) == ("core", "worktree"):
            worktree = value
    longest = max(filter(origin.startswith, bases), key=len, default=None)
    if longest is not None:
        origin = bases[longest] + origin.removeprefix(longest)
    return _Config(origin, worktree)


def _entries(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Section, subsection, key and value of each entry of a file of git's settings, as far as we understand it."""
    section = of = ""
    lines = iter(text.split("\n"))
    for line in lines:
        if match := _SECTION.match(line):
            section, _, of = match[1].lower().partition(".")  # `[remote.origin]` is how it was written once
            of = of if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
            line = line[match.end() :]
        entry = _ENTRY.match(line)
        if entry:
            parts = [entry[2].removesuffix("\r")]
            while (len(parts[-1]) - len(parts[-1].rstrip("\\"))) % 2:
                parts[-1] = parts[-1][:-1]
                parts.append(next(lines, "").removesuffix("\r"))
            yield section, of, entry[1].lower(), _value("".join(parts))


def _value(text: str) -> str:
    """A value without its quotes, escapes and comment."""
    found: list[str] = []
    is_quoted = False
    for escaped, mark, plain in _PIECE.findall(text):
        if mark == '"':
            is_quoted = not is_quoted
        elif mark and not is_quoted:
            break
        else:
            found.append({"n": "\n", "t": "\t", "b": "\b"}.get(escaped, escaped) or mark or plain)
    return "".join(found).strip()


def _read(path: str, most: int) -> str:
    """The beginning of a regular file, in whole lines; empty when it is none, or cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # it was changed meanwhile
                return ""
            data = file.read(most + 1)
    except (OSError, ValueError):
        return ""
    if len(data) > most:
        data = data[: data.rfind(b"\n", 0, most) + 1]
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would be waited for otherwise."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
