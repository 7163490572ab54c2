"""Two workers on loopback: the ids of one machine, and no loss that is more than an error.

Run with `pytest -m rpc` in an environment whose llama-cpp-python is built with RPC.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest
import tiny

from speclocal.decoding.types import SamplingParams
from speclocal.errors import ModelError, WorkerError
from speclocal.jobs.chat import Chat
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama import guard, rpc
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.llama.workers import Address, greet

pytestmark = pytest.mark.rpc

HERE = Placement(1)


@dataclass
class Worker:
    """A `speclocal worker` as a process."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", self.port)

    @property
    def server(self) -> psutil.Process:
        """The process in which llama.cpp serves."""
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if "spawn_main" in " ".join(child.cmdline()))

    def end(self) -> str:
        """End it as a crash would; return what it said."""
        self.process.kill()
        return self.process.communicate()[1].decode()


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a worker, at any port or at one given."""
    if not rpc.available():
        pytest.skip("this llama.cpp is built without RPC")
    started: list[Worker] = []

    def start_worker(port: int = 0, *options: str) -> Worker:
        command = [sys.executable, "-m", "speclocal", "worker", "--port", str(port), "--threads", "1", "--json"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1].decode()
        started.append(Worker(process, json.loads(line)["address"]["port"]))
        return started[-1]

    yield start_worker
    for worker in started:
        if worker.process.poll() is None:
            worker.end()


@pytest.fixture
def workers(start: Start) -> list[Worker]:
    return [start(), start()]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def target(tmp_path: Path) -> ModelFile:
    return ModelFile("target", tiny.write_llama(tmp_path / "target.gguf"))


@pytest.fixture
def draft(tmp_path: Path) -> ModelFile:
    return ModelFile("draft", tiny.write_llama(tmp_path / "draft.gguf", noise=0.05))


def over(workers: list[Worker]) -> Placement:
    return replace(HERE, rpc=tuple(worker.address for worker in workers))


def settings(mode: Mode = Mode.OFF, seed: int | None = None, max_tokens: int = 32) -> ReplySettings:
    params = SamplingParams(temperature=0.0 if seed is None else 0.8)
    return ReplySettings(mode=mode, seed=seed, params=params, max_tokens=max_tokens)


def finished(reply: Reply) -> list[int]:
    for _ in reply:
        pass
    return reply.token_ids


def opened(target: ModelFile, draft: ModelFile | None, placement: Placement) -> tuple[Session, list[int]]:
    session = Session(target, draft, placement, layout=Layout.FILE)
    prompt = session.vocab.tokenize("the cat and the tree and the cat and the tree drafts tokens ")
    session.open_context(len(prompt), settings(), 256)
    return session, prompt


def test_the_ids_are_those_of_one_machine(workers: list[Worker], target: ModelFile, draft: ModelFile) -> None:
    """In every mode, greedy and with a seed; all layers are on the workers, half on each; the draft model is here."""
    alone, prompt = opened(target, draft, HERE)
    spread, _ = opened(target, draft, over(workers))
    with alone, spread:
        assert [device.backend for device in spread._target_weights.devices] == ["RPC", "RPC"]
        assert spread._draft_weights is not None
        assert not spread._draft_weights.devices
        for seed in (None, 1, 2):
            for mode in Mode:
                asked = settings(mode, seed)
                assert finished(spread.reply(prompt, asked)) == finished(alone.reply(prompt, asked)), (seed, mode)


def test_workers_are_free_again_when_a_session_closes(workers: list[Worker], target: ModelFile) -> None:
    """And can be used by the next one of the same process."""
    for _ in range(2):
        session, prompt = opened(target, None, over(workers))
        with session:
            assert finished(session.reply(prompt, settings()))
            with pytest.raises(ModelError, match="does not answer within"):
                greet(workers[0].address, patience_seconds=0.2)
        assert greet(workers[0].address)


@pytest.mark.parametrize("mode", Mode)
def test_the_loss_of_a_worker_ends_the_reply_and_nothing_else(
    mode: Mode, workers: list[Worker], start: Start, target: ModelFile, draft: ModelFile
) -> None:
    """The text so far stays; without the worker the next reply is an error; with it the reply is as it would have been.

    The other worker is free meanwhile.
    """
    session, prompt = opened(target, draft, over(workers))
    with session:
        whole = finished(session.reply(prompt, settings(mode)))
        reply = session.reply(prompt, settings(mode))
        events = iter(reply)
        while not reply.token_ids:
            next(events)
        workers[1].end()
        with pytest.raises(WorkerError) as caught:
            list(events)
        assert caught.value.message == f"lost {workers[1].address}: what was on it of the model is gone"
        assert reply.token_ids == whole[: len(reply.token_ids)]
        assert greet(workers[0].address)
        with pytest.raises(ModelError, match=f"no worker answers at {workers[1].address}"):
            session.reply(prompt, settings(mode))
        start(workers[1].port)
        assert finished(session.reply(prompt, settings(mode))) == whole


def test_a_chat_outlives_a_worker(workers: list[Worker], start: Start, target: ModelFile) -> None:
    """Whatever was said is part of the conversation, and the next turn goes on from there."""
    with Session(target, None, over(workers)) as session:
        chat = Chat(session, settings(max_tokens=8), context_size=256)
        with chat.asking("the cat") as turn:
            finished(turn.reply)
        workers[0].end()
        with pytest.raises(WorkerError), chat.asking("the tree") as turn:
            finished(turn.reply)
        assert len(chat.conversation.exchanges) == 1
        workers[0] = start(workers[0].port)
        with chat.asking("the tree") as turn:
            assert finished(turn.reply)
        assert len(chat.conversation.exchanges) == 2


def test_an_interrupt_ends_the_wait_for_a_worker_that_stands_still(
    workers: list[Worker], target: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is stopped like any other, and when the worker moves again the next one is as it should be."""
    monkeypatch.setattr(guard, "_PATIENCE_SECONDS", 0.2)
    session, prompt = opened(target, None, over(workers))
    with session:
        whole = finished(session.reply(prompt, settings()))
        server = workers[1].server
        server.suspend()
        threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt):
            finished(session.reply(prompt, settings()))
        server.resume()
        assert finished(session.reply(prompt, settings())) == whole


def test_a_worker_that_is_lost_while_a_model_is_loaded_is_an_error(
    workers: list[Worker], target: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = rpc.connect

    def connect_and_lose(addresses: tuple[Address, ...]) -> rpc.Connection:
        connection = connect(addresses)
        connection.run(lambda: None)
        monkeypatch.setattr(connection, "devices", connection.devices)
        workers[1].end()
        return connection

    monkeypatch.setattr(rpc, "connect", connect_and_lose)
    with pytest.raises(WorkerError, match="what was on it of the model is gone"):
        Session(target, None, over(workers))


def test_a_worker_whose_llama_cpp_ends_itself_serves_again(start: Start) -> None:
    """As after a request that it does not expect."""
    worker = start()
    first = worker.server
    time.sleep(2.1)  # a process that ends sooner would end again and again
    first.send_signal(signal.SIGABRT)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(ModelError):
            if greet(worker.address) and worker.server.pid != first.pid:
                break
        time.sleep(0.1)
    assert worker.end() == "a client made llama.cpp end itself: it serves again\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_worker_ends_when_asked_and_frees_its_port(number: int, code: int, start: Start) -> None:
    """Its own process and the one that serves are gone, without a word."""
    worker = start()
    server = worker.server
    worker.process.send_signal(number)
    _, errors = worker.process.communicate(timeout=10)
    assert (worker.process.returncode, errors) == (code, b"")
    assert not server.is_running()
    with socket.create_server(("127.0.0.1", worker.port)):
        pass


def test_the_serving_process_never_outlives_its_worker(start: Start) -> None:
    """Not even one that is killed."""
    worker = start()
    server = worker.server
    worker.end()
    psutil.wait_procs([server], timeout=10)
    assert not server.is_running()


def test_an_open_worker_is_warned_of(start: Start) -> None:
    """One that other machines can reach says what that means; one on loopback does not."""
    assert "asks nobody who they are" in start(0, "--host", "0.0.0.0").end()
    assert start().end() == ""


def test_a_worker_says_what_it_lends(start: Start) -> None:
    """Without `--json`: device, memory, threads, and how to use it."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
    command = [sys.executable, "-m", "speclocal", "worker", "--port", str(port), "--threads", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=10)
    assert out == ""
    assert lines[0].startswith("lending CPU (")
    assert lines[0].endswith(f" free), 1 thread, at 127.0.0.1:{port}; Ctrl-C ends it\n")
    assert lines[1] == f"use it with `--rpc 127.0.0.1:{port}`; it serves one program at a time\n"
