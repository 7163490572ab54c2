"""`verify`: five parts that hold, and an exit code of 1 when one of them should not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import Models, Ran, Run

MAIN = "from speclocal.terminal.cli import main\nmain()"
BREAKING = {
    "a wrong rule": (
        "import speclocal.decoding.acceptance as acceptance\nacceptance.residual = lambda p, q: p\n",
        ["distribution"],
    ),
    "a reused random draw": (
        "import speclocal.decoding.acceptance as acceptance\n"
        "Use, right = acceptance.Use, acceptance.uniform\n"
        "def uniform(seed, use, *where):\n"
        "    return right(seed, Use.ACCEPT if use is Use.TARGET else use, where[0])\n"
        "acceptance.uniform = uniform\n",
        ["distribution"],
    ),
    "a greedy choice where nothing was drafted": (
        "from speclocal.decoding.acceptance import RatioRule\n"
        "right = RatioRule.judge\n"
        "RatioRule.choose = lambda self, p, position: int(p.ids[p.probs.argmax()])\n"
        "def judge(self, p, q, drafted, position):\n"
        "    import speclocal.decoding.acceptance as acceptance\n"
        "    verdict = right(self, p, q, drafted, position)\n"
        "    if verdict.fate is acceptance.Fate.ACCEPTED:\n"
        "        return verdict\n"
        "    u = acceptance.uniform(self.seed, acceptance.Use.TARGET, position)\n"
        "    return acceptance.Verdict(acceptance.residual(p, q).draw(u), acceptance.Fate.CORRECTION, drafted)\n"
        "RatioRule.judge = judge\n",
        ["distribution"],
    ),
    "a coupled rule that accepts every draft": (
        "from speclocal.decoding.acceptance import CoupledRule, Fate, Verdict\n"
        "CoupledRule.judge = lambda self, p, q, drafted, position: Verdict(drafted, Fate.ACCEPTED, drafted)\n",
        ["seeded"],
    ),
    "a skipped rollback": (
        "from speclocal.llama.model import LlamaModel\n"
        "right = LlamaModel.rollback\n"
        "def rollback(self, length):\n"
        "    if length == 0 or len(self.cached) - length > 9:\n"
        "        right(self, length)\n"
        "LlamaModel.rollback = rollback\n",
        ["greedy", "seeded", "cache"],
    ),
}
"""By what is broken: a program that breaks it, and the parts that must notice."""

Verify = Callable[..., Ran]


@pytest.fixture(scope="module")
def verify(models: Models, environment: dict[str, str]) -> Verify:
    """Run `verify` on the tiny pair, in a process that first runs `program`."""

    def run_verify(*arguments: str, program: str = "", **kwargs: Any) -> Ran:
        command = [sys.executable, "-c", program + MAIN, "verify", "-m", models.target, "-d", models.draft]
        done = subprocess.run(
            [*command, "--threads", "1", "-n", "12", *arguments],
            capture_output=True,
            cwd=models.folder,
            env=environment,
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run_verify


@pytest.fixture(scope="module")
def unbroken(verify: Verify) -> Ran:
    return verify("--json")


@pytest.mark.parametrize("broken", BREAKING)
def test_what_is_broken_fails_its_part(verify: Verify, unbroken: Ran, broken: str) -> None:
    """Untouched, all five parts hold; broken, the right parts do not, and the exit code is 1."""
    assert (unbroken.code, unbroken.json["holds"]) == (0, True)
    program, failing = BREAKING[broken]
    ran = verify("--json", program=program)
    assert ran.code == 1
    assert ran.json["holds"] is False
    holds = {part["name"]: part["holds"] for part in ran.json["parts"]}
    assert list(holds) == ["greedy", "seeded", "distribution", "cache", "widths"]
    assert set(failing) <= {name for name, held in holds.items() if not held}
    if failing == ["distribution"]:
        assert all(held for name, held in holds.items() if name not in failing)


def test_a_rule_that_accepts_every_draft_is_found_without_a_draft_model(
    run: Run, models: Models, environment: dict[str, str]
) -> None:
    """Where the modes happen to draft nothing wrong, drafts that err on purpose do."""
    program = BREAKING["a coupled rule that accepts every draft"][0]
    command = [sys.executable, "-c", program + MAIN, "verify", "-m", models.target, "--threads", "1", "-n", "12"]
    done = subprocess.run(command, capture_output=True, cwd=models.folder, env=environment, timeout=300, check=False)
    assert done.returncode == 1
    assert b"2 seeded: with a seed every mode writes what plain decoding writes: DOES NOT HOLD" in done.stdout


def test_a_skipped_rollback_is_told_as_a_bug(verify: Verify, unbroken: Ran) -> None:
    """Its forks are not taken for arithmetic, and the last line says what does not hold."""
    assert unbroken.code == 0
    ran = verify(program=BREAKING["a skipped rollback"][0])
    assert ran.code == 1
    assert "A BUG, since plain passes of the same widths write something else" in ran.out
    assert "arithmetic, since" not in ran.out
    assert ran.out.splitlines()[-1].startswith("NOT exact here: 1 (greedy), 2 (seeded), ")


def test_wrong_rules_are_shown_to_be_caught(verify: Verify) -> None:
    """On request the same test is put to rules with a mistake, and catches them."""
    ran = verify("--wrong-rules")
    assert ran.code == 0
    assert ran.out.count(": caught, p-value") == 3
    assert "NOT CAUGHT" not in ran.out
    assert ran.out.splitlines()[-1].startswith("exact here: all parts hold, and no reply differs from plain decoding")


def test_a_recurrent_model_is_exact_in_all_five_parts(run: Run, models: Models) -> None:
    """A cache that cannot drop tokens is put to every test, with a draft model of another kind."""
    ran = run("verify", "-m", models.recurrent, "-d", models.draft, "--threads", "1", "-n", "12", "--json")
    assert (ran.code, ran.json["holds"]) == (0, True)
    greedy, seeded, _, cache, widths = ran.json["parts"]
    for part in (greedy, seeded):
        assert {reply["mode"] for reply in part["replies"]} == {"lookup", "draft", "auto", "erring"}
        erring = [reply for reply in part["replies"] if reply["mode"] == "erring"]
        assert all(0 < reply["num_accepted"] < reply["num_tested"] for reply in erring)
        assert all(reply["fork"] is None for reply in part["replies"])
    assert [check["holds"] for check in cache["checks"]] == [True, True, True]
    assert len(widths["checks"]) > 1


def test_a_draft_model_that_lacks_room_is_left_out_of_the_distribution(run: Run, models: Models) -> None:
    """One trained on 64 tokens cannot read the requests: p is tested against other drafters, and all parts hold."""
    ran = run("verify", "-m", models.target, "-d", models.short, "--threads", "1", "-n", "4", "--json")
    assert (ran.code, ran.json["holds"]) == (0, True)
    drafters = {sampled["drafter"] for sampled in ran.json["parts"][2]["samples"]}
    assert drafters == {"the model itself at temperature 1.6", "a copy that errs"}


def test_the_default_model_is_exact_in_all_five_parts(run: Run, default_model_path: Path) -> None:
    """The real model drafting for itself: every mode the same text, drafts that are accepted, samples that follow p."""
    model = str(default_model_path)
    ran = run("verify", "-m", model, "-d", model, "--threads", "1", "-n", "12", "--json", timeout=600)
    assert (ran.code, ran.json["holds"]) == (0, True)
    greedy, seeded, distribution, cache, widths = ran.json["parts"]
    for part in (greedy, seeded):
        assert {reply["mode"] for reply in part["replies"]} == {"lookup", "draft", "auto", "erring"}
        erring = [reply for reply in part["replies"] if reply["mode"] == "erring"]
        assert all(0 < reply["num_accepted"] < reply["num_tested"] for reply in erring)
        assert all(reply["num_tokens"] == 12 for reply in part["replies"])
        for mode in ("lookup", "draft"):
            assert sum(reply["num_accepted"] for reply in part["replies"] if reply["mode"] == mode) > 0
    assert len(distribution["samples"]) == 6
    for sampled in distribution["samples"]:
        for test in (sampled["one_token"], sampled["two_tokens"]):
            assert test["num_samples"] == 4000
            assert test["p_value"] >= distribution["limit"]
    assert [check["holds"] for check in cache["checks"]] == [True, True, True]
    assert len(widths["checks"]) == len(widths["calibration"]["exact"][0]["widths"]) > 1
