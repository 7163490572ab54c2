"""`speclocal doctor` as people run it: this machine, a model, a pair, a ranking; exit code 0 whatever is found."""

from __future__ import annotations

import json

import pytest
from commands import Models, Ran, Run

QUICK = ("--quick", "--threads", "1")
SHORT = ("--threads", "1", "-n", "8")


def test_a_machine_is_described_without_a_model(run: Run) -> None:
    """Python, the build, devices, threads and memory, places and models: each in a row of its own."""
    ran = run("doctor")
    assert (ran.code, ran.err) == (0, "")
    rows = {line.split("  ")[0] for line in ran.out.splitlines()}
    assert rows >= {"Python", "system", "llama-cpp-python", "built for", "device", "GPU", "threads", "memory"}
    assert rows >= {"fetched models", "the Hub's cache", "measurements", "processed prompts", "notes on texts"}


def test_a_machine_is_described_as_json(run: Run, environment: dict[str, str]) -> None:
    found = run("doctor", "--json").json
    assert found["threads"] >= 1
    assert "CPU" in found["backends"]
    assert found["features"]
    assert 0 < found["free_memory_bytes"] <= found["total_memory_bytes"]
    folders = {place["what"]: place["folder"] for place in found["kept"]}
    assert folders["fetched models"] == f"{environment['SPECLOCAL_CACHE']}/models"


def test_a_draft_needs_a_target(run: Run) -> None:
    ran = run("doctor", "--drafts", "x.gguf")
    assert ran == Ran(
        2,
        "",
        "error: there is no target to draft for\n\nhint: name it first: `speclocal doctor TARGET DRAFT`\n",
    )


def test_files_are_read_without_measuring(run: Run, models: Models) -> None:
    """With `--quick` facts and vocabularies are told, and that nothing was measured."""
    ran = run("doctor", models.target, models.draft, *QUICK)
    assert (ran.code, ran.err) == (0, "")
    assert "not measured" in ran.out
    assert "shared ids that differ  0 of" in ran.out
    assert f"the vocabulary of `{models.draft}` fits; without `--quick` you learn whether drafting pays" in ran.out
    assert "rank" not in ran.out


@pytest.mark.parametrize("others", [("stranger.gguf",), ("--drafts", "stranger.gguf"), ("-d", "stranger.gguf")])
def test_a_pair_that_does_not_fit_is_shown_where_it_parts(run: Run, models: Models, others: tuple[str, ...]) -> None:
    """However the draft model is given: the first differing id with both texts, and the verdict with the way out."""
    found = run("doctor", models.target, *others, *QUICK, "--json").json
    (candidate,) = found["candidates"]
    first = candidate["vocabulary"]["first_difference"]
    assert first["target"] != first["draft"]
    assert not candidate["fits"]
    ran = run("doctor", models.target, *others, *QUICK)
    assert ran.code == 0
    assert f"first of them: {first['token']}" in ran.out
    assert (
        f"`stranger.gguf` cannot draft for `{models.target}`: token {first['token']} is `{first['target']}` in the "
        f"target and `{first['draft']}` in the draft; leave out `--draft` to draft by prompt lookup" in ran.out
    )


def test_a_pair_is_tried(run: Run, models: Models) -> None:
    """Speeds of every mode by kind of task, with plain decoding at 1; the names of the modes are those of `compare`."""
    found = run("doctor", models.target, models.draft, *SHORT, "--json").json
    assert found["max_tokens"] == 8
    (candidate,) = found["candidates"]
    assert candidate["fits"]
    tasks = candidate["forecast"]["tasks"]
    assert [task["kind"] for task in tasks] == ["chat", "code edit", "extraction", "prose"]
    assert found["notes"][0].startswith("`summary-minutes` is left out: ")
    for task in tasks:
        assert task["tokens"] <= 8
        assert task["modes"].keys() >= {"off", "lookup", "lookup:8", "draft", "draft:4", "auto", "auto without draft"}
        assert task["modes"]["off"]["speedup"] == 1
        assert task["modes"]["draft"] == task["modes"]["draft:4"]
        assert all(mode["speedup"] > 0 for mode in task["modes"].values())
    assert candidate["forecast"]["best_draft_length"] >= 1
    assert found["verdict"]


def test_several_candidates_are_ranked(run: Run, models: Models) -> None:
    """`--drafts A B C` and draft models after the target are the same; those that cannot draft are last."""
    names = (models.stranger, models.draft, models.sentencepiece)
    ran = run("doctor", models.target, "--drafts", *names, *SHORT)
    assert ran.code == 0
    lines = ran.out.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("rank"))
    assert lines[start + 1].split()[:2] == ["1", models.draft]
    assert {line.split()[1] for line in lines[start + 2 : start + 4]} == {models.stranger, models.sentencepiece}
    assert "byte-level BPE in the target and SentencePiece in the draft" in ran.out


def test_a_recurrent_target_is_tried_like_any_other(run: Run, models: Models) -> None:
    """Its state cannot drop tokens but can be copied; the forecast counts what going back costs."""
    found = run("doctor", models.recurrent, *SHORT, "--json").json
    assert found["measured"]["can_rollback"] is True
    assert [task["kind"] for task in found["alone"]["tasks"]] == ["chat", "code edit", "extraction", "prose"]


def test_a_damaged_target_is_refused(run: Run, models: Models) -> None:
    ran = run("doctor", models.cut, *QUICK)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"error: `{models.cut}` is damaged: ")


def test_json_is_one_object(run: Run, models: Models) -> None:
    """Facts are plain values, also those of a file's path."""
    ran = run("doctor", models.target, *QUICK, "--json")
    found = json.loads(ran.out)
    assert found["target"]["name"] == models.target
    assert found["target"]["architecture"] == "llama"
    assert found["candidates"] == []
