"""Which project a working folder belongs to, and that no log and no repository can mislead or stop us."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from demerit.projects import KEY_BYTES, Project, Projects, canonical

SECRET = "hunter" + "2"
SHOP = Project("https://github.com/acme/shop", "shop", "remote")

posix = pytest.mark.skipif(sys.platform == "win32", reason="paths as POSIX has them")
with_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def repository(root: Path, config: str = "") -> Path:
    """A repository as far as we look at one."""
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git" / "config").write_text(config, encoding="utf-8")
    return root


def cloned(url: str) -> str:
    return f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n'


def folder(path: Path) -> Project:
    return Project(str(path), path.name, "folder")


# --- remotes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop",
        "https://github.com/acme/shop.git",
        "https://github.com/acme/shop.git/",
        "http://GitHub.com:80//Acme//Shop",
        f"https://me:{SECRET}@github.com/acme/shop.git",
        f"https://{SECRET}@github.com:443/acme/shop",
        f"https://me:{SECRET}@{SECRET}@github.com/acme/shop",
        f"https://github.com/acme/shop?access_token={SECRET}",
        "git@github.com:acme/shop.git",
        "github.com:/acme/shop",
        "ssh://git@github.com/Acme/Shop.GIT",
        "ssh://git@github.com:22/acme/shop",
        "ssh://git@ssh.github.com:443/acme/shop.git",
        "git+ssh://git@github.com./acme/shop",
        "git://github.com:9418/acme/shop.git",
    ],
)
def test_one_repository_has_one_address_however_it_is_written(url: str) -> None:
    assert canonical(url) == "https://github.com/acme/shop"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        pytest.param("git@Git.Example:Acme/Shop.git", "https://git.example/Acme/Shop", id="case counts on other hosts"),
        pytest.param("ssh://git@git.example:2222/a/b", "https://git.example:2222/a/b", id="a port of its own stays"),
        pytest.param(
            "https://git.example:22/a/b", "https://git.example:22/a/b", id="a default of another scheme stays"
        ),
        pytest.param("ssh://git@[2001:DB8:0::1]:22/a/b", "https://[2001:db8::1]/a/b", id="IPv6 in a URL"),
        pytest.param("git@[::1]:a/b.git", "https://[::1]/a/b", id="IPv6 in the short form"),
        pytest.param("git@work-alias:a/b", "https://work-alias/a/b", id="a name of the user's own for a host"),
        pytest.param("https://gitlab.com/A/B/C.git", "https://gitlab.com/a/b/c", id="groups in groups"),
        pytest.param("git@git.example:2222/a/b", "https://git.example/2222/a/b", id="the short form has no port"),
        pytest.param("https://bitbuc\u212aet.org/A/b", "https://bitbuc\u212aet.org/A/b", id="only ASCII is lowered"),
        pytest.param("https://git.example/\u00c9/e\u0301", "https://git.example/\u00c9/e\u0301", id="accents stay"),
        pytest.param("s3://Bucket/a/b", "s3://bucket/a/b", id="another scheme stays"),
        pytest.param(
            f"https://mirror.example/https://me:{SECRET}@github.com/a/b",
            "https://mirror.example/https:/github.com/a/b",
            id="credentials behind a mirror are dropped",
        ),
    ],
)
def test_the_address_of_a_remote(url: str, address: str) -> None:
    assert canonical(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop",
        "/srv/git/shop.git",
        "../shop",
        "./a:b",
        "C:\\git\\shop",
        "C:/git/shop",
        "file:///srv/git/shop",
        "https://github.com",
        "https://github.com/.git",
        "https:///acme/shop",
        f"https://me:{SECRET}/x@github.com/acme/shop",
        "https://[::1/acme/shop",
        "https://[example]/acme/shop",
        "ext::sh -c evil",
        "https://github.com/acme/shop\n",
        "https://exa mple/a",
    ],
)
def test_what_is_no_remote_on_a_server(url: str) -> None:
    assert canonical(url) is None


@given(st.text(max_size=60) | st.from_regex(r"([a-z+]{2,7}://)?([a-z:@]*@)?[a-zA-Z.]+(:[0-9]*)?[:/][A-Za-z:/.@]*"))
@example("https://a/b.git.git")
def test_an_address_is_its_own_address(url: str) -> None:
    once = canonical(url)
    if once is not None and not once.endswith(".git"):
        assert canonical(once) == once


# --- repositories -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(cloned("git@github.com:acme/shop.git"), id="as git writes it"),
        pytest.param('[REMOTE "origin"] URL=git@github.com:acme/shop\r\n', id="other case, all in a line, CRLF"),
        pytest.param("[remote.origin]\nurl = git@github.com:acme/shop", id="as it was written once"),
        pytest.param('\ufeff[remote "origin"]\nurl = git@github.com:acme/shop', id="with a byte order mark"),
        pytest.param(
            cloned("git@github.com:acme/shop") + cloned("git@github.com:other/one"), id="the first URL counts"
        ),
        pytest.param(cloned("") + cloned("git@github.com:acme/shop"), id="an empty URL is none"),
        pytest.param(
            '[remote "fork"]\nurl = git@github.com:me/shop\n'
            '[remote "Origin"]\nurl = git@github.com:You/shop\n' + cloned("git@github.com:acme/shop"),
            id="other remotes do not count",
        ),
        pytest.param(
            '# [remote "x"]\n; url = a\n[remote "ori\\gin"]\nurl = "git@github.com:ac"me"/shop" # a',
            id="quotes, escapes",
        ),
        pytest.param('[remote "origin"]\nurl = git@github\\\n.com:acme/shop ; a', id="a value in two lines"),
        pytest.param(
            '[url "git@github.com:"]\ninsteadOf = gh:\n[url "git@github.com:acme/"]\ninsteadOf = gh:work/\n'
            '[url "https://push.example/"]\npushInsteadOf = gh:\n' + cloned("gh:work/shop"),
            id="the longest insteadOf counts",
        ),
    ],
)
def test_the_origin_in_a_config(config: str, tmp_path: Path) -> None:
    assert Projects(None).of(str(repository(tmp_path / "a", config))) == SHOP


def test_clones_are_one_project_and_folders_in_them_too(tmp_path: Path) -> None:
    one = repository(tmp_path / "one", cloned(f"https://me:{SECRET}@github.com/acme/shop.git"))
    two = repository(tmp_path / "two", cloned("git@github.com:Acme/Shop"))
    (two / "src").mkdir()
    projects = Projects(tmp_path)
    for cwd in (one, two, two / "src", two / "gone" / "long" / "ago", f"{one}/../two//src/.", two / ".git" / "hooks"):
        assert projects.of(str(cwd)) == SHOP


def test_a_repository_without_a_remote_is_its_folder(tmp_path: Path) -> None:
    root = repository(tmp_path / "shop")
    assert Projects(None).of(str(root / "src")) == folder(root)


@pytest.mark.parametrize("has_remote", [True, False], ids=["with a remote", "without one"])
@pytest.mark.parametrize("is_pruned", [False, True], ids=["there", "pruned"])
def test_a_worktree_belongs_to_its_repository(has_remote: bool, is_pruned: bool, tmp_path: Path) -> None:
    root = repository(tmp_path / "shop", cloned("git@github.com:acme/shop") if has_remote else "")
    mine = root / ".git" / "worktrees" / "fix"
    (tmp_path / "fix" / "src").mkdir(parents=True)
    (tmp_path / "fix" / ".git").write_text(f"gitdir: {mine}\n")
    if not is_pruned:
        mine.mkdir(parents=True)
        (mine / "commondir").write_text("../..\n")
    assert Projects(None).of(str(tmp_path / "fix" / "src")) == (SHOP if has_remote else folder(root))


def test_a_submodule_is_its_own_project(tmp_path: Path) -> None:
    root = repository(tmp_path / "shop", cloned("git@github.com:acme/shop"))
    for name, config in (("lib", cloned("git@github.com:acme/lib")), ("own", "[core]\nworktree = ../../../own\n")):
        (root / ".git" / "modules" / name).mkdir(parents=True)
        (root / ".git" / "modules" / name / "config").write_text(config)
        (root / name).mkdir()
        (root / name / ".git").write_text(f"gitdir: ../.git/modules/{name}\n")
    beside = root / ".git" / "modules" / "own" / "worktrees" / "fix"
    beside.mkdir(parents=True)
    (beside / "commondir").write_text("../..\n")
    (tmp_path / "fix").mkdir()
    (tmp_path / "fix" / ".git").write_text(f"gitdir: {beside}\n")
    projects = Projects(None)
    assert projects.of(str(root / "lib" / "src")) == Project("https://github.com/acme/lib", "lib", "remote")
    assert projects.of(str(root / "own")) == projects.of(str(tmp_path / "fix")) == folder(root / "own")


def test_worktrees_around_a_hidden_bare_repository_are_one(tmp_path: Path) -> None:
    bare = tmp_path / "shop" / ".bare"
    (bare / "worktrees" / "main").mkdir(parents=True)
    (bare / "worktrees" / "main" / "commondir").write_text("../..")
    (tmp_path / "shop" / ".git").write_text("gitdir: ./.bare")
    (tmp_path / "shop" / "main").mkdir()
    (tmp_path / "shop" / "main" / ".git").write_text(f"gitdir: {bare}/worktrees/main")
    projects = Projects(None)
    assert projects.of(str(tmp_path / "shop")) == folder(tmp_path / "shop")
    assert projects.of(str(tmp_path / "shop" / "main")) == folder(tmp_path / "shop")


@posix
def test_a_clone_of_a_folder_belongs_to_that_folder(tmp_path: Path) -> None:
    root = repository(tmp_path / "shop")
    projects = Projects(None)
    for number, url in enumerate((f"{root}", f"{root}/.git", f"file://{root}", "../shop")):
        assert projects.of(str(repository(tmp_path / str(number), cloned(url)))) == folder(root)
    bare = repository(tmp_path / "from-bare", cloned("/srv/git/shop.git"))
    assert projects.of(str(bare)) == Project("/srv/git/shop.git", "shop", "folder")


@with_git
def test_what_git_itself_makes(tmp_path: Path) -> None:
    def git(where: Path, *words: str) -> None:
        environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
        names = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always")
        subprocess.run(["git", *names, *words], cwd=where, env=environ, check=True, capture_output=True)

    for name in ("shop", "lib"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init")
        git(tmp_path / name, "commit", "--allow-empty", "-m", "first")
    root = tmp_path / "shop"
    git(root, "worktree", "add", "../fix")
    git(root, "submodule", "add", "../lib", "lib")
    git(tmp_path, "clone", "shop", "copy")
    projects = Projects(tmp_path)
    assert {projects.of(str(tmp_path / name)) for name in ("shop", "fix", "copy")} == {folder(root)}
    assert projects.of(str(root / "lib")) == folder(tmp_path / "lib")
    git(root, "remote", "add", "origin", f"https://me:{SECRET}@github.com/acme/shop.git")
    projects = Projects(tmp_path)
    assert {projects.of(str(tmp_path / name)) for name in ("shop", "fix")} == {SHOP}


# --- the user's home --------------------------------------------------------------------------------------


def test_dotfiles_do_not_swallow_what_is_below(tmp_path: Path) -> None:
    home = repository(tmp_path / "me", cloned("git@github.com:me/dotfiles"))
    shop = repository(home / "code" / "shop", cloned("git@github.com:acme/shop"))
    (home / "notes").mkdir()
    projects = Projects(home)
    assert projects.of(str(home)) == Project("https://github.com/me/dotfiles", "dotfiles", "remote")
    assert projects.of(str(home / "notes")) == folder(home / "notes")
    assert projects.of(str(home / "gone")) == folder(home / "gone")
    assert projects.of(str(shop / "src")) == SHOP


def test_nothing_at_or_above_the_home_is_looked_at(tmp_path: Path) -> None:
    repository(tmp_path, cloned("git@github.com:acme/machine"))
    (tmp_path / "homes" / "me").mkdir(parents=True)
    (tmp_path / "srv").mkdir()
    projects = Projects(tmp_path / "homes" / "me")
    for path in (tmp_path, tmp_path / "homes", tmp_path / "homes" / "me", tmp_path / "srv"):
        assert projects.of(str(path)) == folder(path)


@posix
def test_the_home_by_another_name_is_the_home(tmp_path: Path) -> None:
    repository(tmp_path / "data" / "me", cloned("git@github.com:me/dotfiles"))
    (tmp_path / "me").symlink_to(tmp_path / "data" / "me")
    for home in ("me", "data/me"):
        for cwd in ("me/a", "data/me/a"):
            assert Projects(tmp_path / home).of(str(tmp_path / cwd)) == folder(tmp_path / cwd)


# --- folders, and what is none ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "key", "name"),
    [
        ("/nowhere/work/shop/", "/nowhere/work/shop", "shop"),
        ("//nowhere/a/../shop/.", "/nowhere/shop", "shop"),
        ("/nowhere/Shop", "/nowhere/Shop", "Shop"),
        ("/nowhere/e\u0301", "/nowhere/e\u0301", "e\u0301"),
        ("/nowhere/ a ", "/nowhere/ a ", " a "),
        ("/", "/", "/"),
        ("/../..", "/", "/"),
        ("c:\\work\\shop\\", "C:\\work\\shop", "shop"),
        ("C:/work/./Shop", "C:\\work\\Shop", "Shop"),
        ("\\\\?\\C:\\work\\shop", "C:\\work\\shop", "shop"),
        ("\\\\server\\share\\shop", "\\\\server\\share\\shop", "shop"),
        ("C:\\", "C:\\", "C:\\"),
        ("/nowhere/a\0b", "/nowhere/a\ufffdb", "a\ufffdb"),
        ("/nowhere/\udcff", "/nowhere/?", "?"),
    ],
)
def test_a_folder_by_itself(cwd: str, key: str, name: str) -> None:
    assert Projects(None).of(cwd) == Project(key, name, "folder")


@pytest.mark.parametrize("cwd", [None, "", ".", "..", "shop", "~/shop", "C:", "C:shop", "https://github.com/a/b"])
def test_what_is_no_absolute_folder_has_no_project(cwd: str | None) -> None:
    assert Projects(None).of(cwd) is None


def test_keys_are_bounded_and_tell_long_folders_apart() -> None:
    long = "/nowhere/" + "\u00e9" * 10_000
    one, two = Projects(None).of(long), Projects(None).of(long + "x")
    assert one is not None and two is not None
    assert one.key != two.key
    assert max(len(key.encode()) for key in (one.key, two.key)) <= KEY_BYTES
    assert len(one.name) == 200


@posix
@given(st.text(st.characters(), max_size=40).map("/nowhere/".__add__) | st.text(st.characters(), max_size=40))
@example("/" * 10_000)
@example("/nowhere" + "/a" * 20_000)
@example("/nowhere/" + "../" * 5_000)
def test_anything_has_a_storable_project_or_none(cwd: str) -> None:
    project = Projects(Path("/nowhere/me")).of(cwd)
    if project is not None:
        assert project.name
        assert "\0" not in project.key
        assert 0 < len(project.key.encode()) <= KEY_BYTES


# --- repositories that are none, or hostile ---------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "gitdir", "../elsewhere", "gitdir: " + "a" * 100_000, "\0" * 100], ids=lambda text: text[:10]
)
def test_a_file_that_points_nowhere_is_no_root(text: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "shop")
    (root / "in").mkdir()
    (root / "in" / ".git").write_text(text)
    assert Projects(None).of(str(root / "in")) == folder(root)


def test_an_empty_folder_named_git_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "in" / ".git").mkdir(parents=True)
    assert Projects(tmp_path).of(str(tmp_path / "in" / "src")) == folder(tmp_path / "in" / "src")


@pytest.mark.parametrize("target", ["gone", ".", "/dev/null", "a\0b", "\udcff"], ids=repr)
def test_a_pointer_to_no_repository_leaves_the_folder(target: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / ".git").write_bytes(b"gitdir: " + target.encode("utf-8", "surrogateescape"))
    assert Projects(tmp_path).of(str(tmp_path / "in")) == folder(tmp_path / "in")


@posix
@pytest.mark.parametrize("place", ["config", "commondir", "../in/.git"])
def test_a_pipe_is_not_waited_for(place: str, tmp_path: Path) -> None:
    git = repository(tmp_path / "shop") / ".git"
    (git / "config").unlink()
    (tmp_path / "shop" / "in").mkdir()
    os.mkfifo(git / place)
    assert Projects(tmp_path).of(str(tmp_path / "shop" / "in")) == folder(tmp_path / "shop")


@posix
def test_links_in_a_circle_end(tmp_path: Path) -> None:
    root = repository(tmp_path / "shop")
    (root / ".git" / "config").unlink()
    (root / ".git" / "config").symlink_to(root / ".git" / "config")
    (root / "in").mkdir()
    (root / "in" / ".git").symlink_to(root / "in" / ".git")
    assert Projects(tmp_path).of(str(root / "in")) == folder(root)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(bytes(range(256)) * 8000, id="binary"),
        pytest.param(b"[" * 2_000_000, id="brackets"),
        pytest.param(b'[remote "' + b"a\\\\" * 500_000, id="a name that never ends"),
        pytest.param(b'[remote "origin"]\nurl = ' + b"\\\n" * 500_000, id="a value in very many lines"),
        pytest.param(b'[remote "origin"]\nurl = https://' + b"a@" * 400_000 + b"[", id="a URL of very many users"),
        pytest.param(b'[remote "origin"]\nurl = x' + b"a@" * 400_000 + b"\n", id="a host of very many users"),
        pytest.param(b'[url "a"]\ninsteadOf = a\n' * 40_000, id="very many rewrites"),
    ],
)
def test_a_hostile_config_costs_little(content: bytes, tmp_path: Path) -> None:
    root = repository(tmp_path / "shop")
    (root / ".git" / "config").write_bytes(content)
    begun = time.perf_counter()
    assert Projects(None).of(str(root)) == folder(root)
    assert time.perf_counter() - begun < 10


def test_a_large_config_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    root = repository(tmp_path / "shop", cloned("git@github.com:acme/shop") + "[x]\n" * 1_000_000)
    assert Projects(None).of(str(root)) == SHOP


def test_an_answer_is_remembered(tmp_path: Path) -> None:
    root = repository(tmp_path / "shop", cloned("git@github.com:acme/shop"))
    projects = Projects(None)
    assert projects.of(str(root)) == SHOP
    shutil.rmtree(root / ".git")
    assert projects.of(str(root)) == SHOP
    assert Projects(tmp_path).of(str(root)) == folder(root)
