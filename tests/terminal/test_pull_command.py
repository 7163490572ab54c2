"""`speclocal pull`, and the models it fetched: as people run it, with a small Hub on loopback and no other network."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import ggufs
import pytest
import tiny
from commands import COMMAND, Ran, Run
from elsewhere_folders import put_ollama, states
from hub_server import FakeHub, serving
from pty_tools import Terminal

CONTENT = ggufs.model(25_000)
TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def server() -> Iterator[FakeHub]:
    with serving(FakeHub({"me/open": {"m.gguf": CONTENT}})) as fake:
        yield fake


@pytest.fixture
def online(server: FakeHub, tmp_path: Path) -> dict[str, str]:
    """What makes a command use the server, with caches of its own."""
    return {**server.environment(tmp_path / "hf"), "SPECLOCAL_CACHE": str(tmp_path / "cache")}


def fetched(ran: Ran) -> Path:
    """Return the one path that a successful `pull` prints."""
    assert ran.code == 0, ran.err
    path = Path(ran.out.removesuffix("\n"))
    assert path.is_file()
    return path


def test_pull_prints_where_the_model_is(run: Run, online: dict[str, str]) -> None:
    """The path alone is on stdout; what happened is said beside it, and nothing the second time but that it is here."""
    first = run("pull", "hf:me/open:m.gguf", env=online)
    assert fetched(first).read_bytes() == CONTENT
    lines = first.err.splitlines()
    assert lines[0] == "fetching hf:me/open:m.gguf (100 kB); this happens once"
    assert lines[1].startswith("hf:me/open:m.gguf: 100 kB in ")
    assert lines[1].endswith(", checked")
    assert len(lines) == 2
    second = run("pull", "hf:me/open:m.gguf", env=online)
    assert (fetched(second), second.err) == (fetched(first), "hf:me/open:m.gguf is on this disk\n")


def test_model_that_got_damaged_can_be_removed_and_pulled_again(run: Run, online: dict[str, str]) -> None:
    path = fetched(run("pull", "hf:me/open:m.gguf", env=online))
    path.resolve().write_bytes(CONTENT[:5000])
    ran = run("pull", "hf:me/open:m.gguf", env=online)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"error: `m.gguf` is damaged: it is cut off: 5000 of {len(CONTENT)} bytes are there\n\n"
        "hint: remove it with `speclocal models rm hf:me/open:m.gguf`, then pull it again\n"
    )
    assert run("models", "rm", "hf:me/open:m.gguf", "--yes", env=online).code == 0
    assert fetched(run("pull", "hf:me/open:m.gguf", env=online)).read_bytes() == CONTENT


def test_pull_tells_programs_what_it_did(run: Run, online: dict[str, str]) -> None:
    for done in (True, False):
        ran = run("pull", "hf:me/open:m.gguf", "--json", env=online)
        (model,) = ran.json["models"]
        assert (model["name"], model["size_bytes"], model["fetched"]) == ("hf:me/open:m.gguf", len(CONTENT), done)
        assert Path(model["path"]).is_file()


def test_pull_of_a_repository_says_what_it_chose(run: Run, online: dict[str, str], server: FakeHub) -> None:
    server.repos["me/many"] = dict.fromkeys(("x-Q8_0.gguf", "x-Q4_K_M.gguf", "mmproj-x-f16.gguf"), CONTENT)
    ran = run("pull", "hf:me/many", env=online)
    assert fetched(ran).name == "x-Q4_K_M.gguf"
    assert ran.err.splitlines()[0] == "chosen: x-Q4_K_M.gguf; there are also x-Q8_0.gguf"
    listed = run("pull", "hf:me/many:Q5_K_M", env=online)
    assert (listed.code, listed.out) == (1, "")
    assert listed.err == (
        "error: me/many holds no model in Q5_K_M\n\n"
        "hint: name one, as hf:me/many:FILE; there are x-Q8_0.gguf, x-Q4_K_M.gguf\n"
    )


def test_pull_fetches_both_models_of_a_pair(run: Run, online: dict[str, str], server: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "speclocal").mkdir()
    (tmp_path / "speclocal/models.toml").write_text(
        '[models.big]\nfile = "m.gguf"\nhub = "me/open:m.gguf"\n'
        '[models.small]\nfile = "s.gguf"\nhub = "me/open:s.gguf"\n[pairs.both]\ntarget = "big"\ndraft = "small"\n'
    )
    env = {**online, "XDG_CONFIG_HOME": str(tmp_path)}
    missing = run("pull", "both", env=env)
    assert missing.code == 1
    assert missing.err.endswith(
        "error: me/open has no file s.gguf\n\nhint: did you mean `m.gguf`? The repository holds m.gguf\n"
    )
    server.repos["me/open"]["s.gguf"] = CONTENT
    ran = run("pull", "both", env=env)
    assert [Path(line).name for line in ran.out.splitlines()] == ["m.gguf", "s.gguf"]
    assert [pair["on_disk"] for pair in run("models", "--json", env=env).json["pairs"] if pair["name"] == "both"] == [
        True
    ]


def test_download_shows_speed_and_time_left(
    online: dict[str, str], environment: dict[str, str], server: FakeHub
) -> None:
    """On a terminal the live line grows; 40 MB that arrive slowly give it time."""
    server.repos["me/open"]["large.gguf"] = ggufs.model(10_000_000)
    server.pace = 0.2
    command = [*COMMAND, "pull", "hf:me/open:large.gguf"]
    with Terminal(command, columns=120, env={**environment, **online}) as terminal:
        terminal.wait_for(lambda: "MB/s" in terminal.text)
        live = next(row for row in terminal.rows if "MB/s" in row)
        assert live.startswith("fetching hf:me/open:large.gguf: ")
        assert " of 40.0 MB, " in live
        assert live.endswith(" s left")
        assert terminal.end() == 0
        assert "checked" in terminal.text
        assert terminal.whole


def test_interrupted_pull_leaves_nothing_that_is_listed(
    run: Run, online: dict[str, str], environment: dict[str, str], server: FakeHub, tmp_path: Path
) -> None:
    server.repos["me/open"]["large.gguf"] = ggufs.model(10_000_000)
    server.pace = 1
    command = [*COMMAND, "pull", "hf:me/open:large.gguf"]
    with Terminal(command, columns=120, env={**environment, **online}) as terminal:
        terminal.wait_for(lambda: "fetching" in terminal.text)
        terminal.press("c")
        server.released.set()
        assert terminal.end() == 130
    assert list((tmp_path / "hf").rglob("*.incomplete")) == []
    assert run("models", "--json", env=online).json["found"] == []


PROGRAM = """
import socket, sys

def forbidden(*arguments, **options):
    print("a request", arguments, file=sys.stderr)
    raise SystemExit(99)

socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = forbidden
socket.getaddrinfo = socket.gethostbyname = socket.create_connection = forbidden
from speclocal.terminal.cli import main
main()
"""


@pytest.mark.parametrize("offline", ["0", "1"])
@pytest.mark.parametrize("reference", ["hf:me/tiny:t-Q8_0.gguf", "hf:me/tiny"])
def test_cached_model_starts_without_a_request(
    run: Run,
    online: dict[str, str],
    environment: dict[str, str],
    server: FakeHub,
    tmp_path: Path,
    offline: str,
    reference: str,
) -> None:
    """The server counts none, and no socket is opened: with HF_HUB_OFFLINE and without."""
    server.repos["me/tiny"] = {"t-Q8_0.gguf": tiny.write_llama(tmp_path / "t.gguf").read_bytes()}
    fetched(run("pull", reference, env=online))
    server.requests.clear()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "generate", "Hi", "-m", reference, "--threads", "1", "-n", "4"],
        env={**environment, **online, "HF_HUB_OFFLINE": offline},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, server.requests) == (0, []), done.stderr


def test_the_guard_against_requests_sees_one(online: dict[str, str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "pull", "hf:me/open:m.gguf"],
        env={**environment, **online},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 99
    assert done.stderr.startswith("a request")


@pytest.mark.parametrize("reference", ["hf:me/open:m.gguf", "hf:me/open", "smollm2-135m"])
def test_missing_model_says_so_at_once_when_offline(
    run: Run, online: dict[str, str], server: FakeHub, reference: str
) -> None:
    for command in (("pull", reference), ("generate", "Hi", "-m", reference)):
        ran = run(*command, env={**online, "HF_HUB_OFFLINE": "1"})
        assert (ran.code, ran.out) == (1, "")
        assert "is not on this disk, and HF_HUB_OFFLINE forbids to download it" in ran.err
        assert ran.err.endswith("hint: unset HF_HUB_OFFLINE\n")
    assert server.requests == []


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize("trouble", ["absent", "gated", "invalid", "echo", "file", "refused", "unsendable"])
def test_token_is_never_printed(
    run: Run, online: dict[str, str], server: FakeHub, tmp_path: Path, trouble: str, debug: tuple[str, ...]
) -> None:
    """Whatever goes wrong, and with tracebacks; even where the server repeats the token in its answer."""
    token = f"{TOKEN}\u00e9" if trouble == "unsendable" else TOKEN
    server.gated.add("me/gated")
    server.tells_tokens = True
    if trouble in ("invalid", "echo", "file"):
        server.statuses = [401 if trouble == "invalid" else 500] * 9
    env = {**online, "HF_TOKEN": token}
    if trouble == "file":  # where `hf auth login` keeps it
        (tmp_path / "hf").mkdir()
        (tmp_path / "hf/token").write_text(env.pop("HF_TOKEN"))
    if trouble == "refused":
        env["HF_ENDPOINT"] = f"http://{TOKEN}:{TOKEN}@127.0.0.1:9"
    repo = {"absent": "me/nowhere", "gated": "me/gated"}.get(trouble, "me/open")
    ran = run("pull", f"hf:{repo}:m.gguf", *debug, env=env)
    assert (ran.code, ran.out) == (1, "")
    assert ("Traceback" in ran.err) == bool(debug)
    assert TOKEN not in ran.err
    if debug and trouble in ("echo", "file"):
        assert "not with Bearer ***" in ran.err


def test_models_lists_what_other_programs_keep(run: Run, online: dict[str, str], tmp_path: Path) -> None:
    put_ollama(tmp_path / "ollama", "tiny:1b", tiny.write_llama(tmp_path / "t.gguf").read_bytes())
    put_ollama(tmp_path / "ollama", "half:1b", CONTENT[:5000])
    before = states(tmp_path / "ollama")
    env = {**online, "OLLAMA_MODELS": str(tmp_path / "ollama")}
    ran = run("models", env=env)
    rows = {line.split("  ")[0]: line.split() for line in ran.out.split("\n\n")[2].splitlines()}
    assert rows["ollama:tiny:1b"][3:] == ["Q8_0", "4,096", "?", "yes"]
    assert " ".join(rows["ollama:half:1b"][6:]) == f"damaged: it is cut off: 5000 of {len(CONTENT)} bytes are there"
    done = run("generate", "Hi", "-m", "ollama:tiny:1b", "--threads", "1", "-n", "4", "--json", env=env)
    assert done.json["model"] == "ollama:tiny:1b"
    assert states(tmp_path / "ollama") == before


def test_models_rm_needs_somebody_to_ask_or_yes(run: Run, online: dict[str, str]) -> None:
    path = fetched(run("pull", "hf:me/open:m.gguf", env=online))
    refused = run("models", "rm", "hf:me/open:m.gguf", env=online)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: there is nobody to ask whether to remove it\n\nhint: give --yes\n"
    assert path.is_file()
    ran = run("models", "rm", "hf:me/open:m.gguf", "--yes", env=online)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "hf:me/open:m.gguf is removed: 100 kB are free again\n"
    assert not path.exists()
    again = run("models", "rm", "hf:me/open:m.gguf", "--yes", "--json", env=online)
    assert (again.code, again.err.splitlines()[0]) == (2, "error: `hf:me/open:m.gguf` is not on this disk")


@pytest.mark.parametrize(("answer", "gone"), [("n", False), ("", False), ("y", True)])
def test_models_rm_asks_first(
    run: Run, online: dict[str, str], environment: dict[str, str], answer: str, gone: bool
) -> None:
    path = fetched(run("pull", "hf:me/open:m.gguf", env=online))
    command = [*COMMAND, "models", "rm", "hf:me/open:m.gguf"]
    with Terminal(command, columns=200, env={**environment, **online}) as terminal:
        terminal.wait_for(lambda: "[y/N]" in terminal.text)
        assert "remove hf:me/open:m.gguf (100 kB)?" in terminal.text
        assert str(path) in terminal.text
        terminal.type(f"{answer}\n")
        assert terminal.end() == 0
        assert ("nothing is removed" in terminal.text) != gone
    assert path.exists() != gone


def test_models_rm_tells_programs_what_went(run: Run, online: dict[str, str]) -> None:
    path = fetched(run("pull", "hf:me/open:m.gguf", env=online))
    ran = run("models", "rm", "hf:me/open:m.gguf", "--yes", "--json", env=online)
    assert json.loads(ran.out) == {
        "removed": [{"name": "hf:me/open:m.gguf", "size_bytes": len(CONTENT), "paths": [str(path)]}]
    }


def test_a_word_after_models_that_is_no_command_is_refused(run: Run) -> None:
    ran = run("models", "remove")
    assert (ran.code, ran.out, ran.err) == (
        2,
        "",
        "error: no such command `remove`\n\nhint: see `speclocal models --help`\n",
    )
