"""Every way a command can be refused: one message, one way out, an exit code, nothing on stdout, no traceback."""

from __future__ import annotations

import re
from pathlib import Path

import llama_cpp
import pytest
from commands import Models, Ran, Run

FORMS = "give a name from `speclocal models`, a path to a .gguf file, or hf:user/repo:file.gguf"
SEE_WHY = "run `speclocal doctor {} {}` to see what differs, or leave out `--draft` to draft by prompt lookup"
DAMAGED = (
    "the file may be damaged, cut off, or newer than the installed llama-cpp-python; "
    "fetch it again, or update with `pip install -U llama-cpp-python`"
)


def refused(code: int, message: str, hint: str) -> Ran:
    return Ran(code, "", f"error: {message}\n\nhint: {hint}\n")


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("-m", "smollm2-135"), "no model or pair is called `smollm2-135`", f"did you mean `smollm2-135m`? Or {FORMS}"),
        (("-m", "zzz"), "no model or pair is called `zzz`", FORMS),
        (("-d", "zzz"), "no model or pair is called `zzz`", FORMS),
        (("-m", "./zzz"), "there is no file `./zzz`", FORMS),
        (("-m", "."), "no model or pair is called `.`", FORMS),
        (("-m", "/"), "`/` is a directory", FORMS),
        (
            ("-m", "page.gguf"),
            "`page.gguf` is not a GGUF file but an HTML page: a download saved the page around the file",
            "download the .gguf file itself",
        ),
        (
            ("-m", "hf:user"),
            "`hf:user` does not name a file on the Hub",
            "write it as hf:user/repo:file.gguf, for example hf:Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf",
        ),
        (("-m", "[bold]x[/bold]"), "there is no file `[bold]x[/bold]`", FORMS),
        (("-m", "a\x1b[31mb\x07"), "no model or pair is called `a\u241b[31mb\u2407`", FORMS),
        (("--mode", "draft"), "mode `draft` needs a draft model", "give one with `--draft`, or use `--mode lookup`"),
        (("--stop", ""), "a stop string is empty", "leave out --stop, or give it the text to stop at"),
        (
            ("--strict", "-g", "3"),
            "`--strict` chooses the draft lengths itself",
            "leave out `-g`, or `--strict`",
        ),
        (("--threads", "0"), "--threads 0 is out of range", "give a number from 1 to 512"),
        (("--threads", "513"), "--threads 513 is out of range", "give a number from 1 to 512"),
        (
            ("--ctx", "1"),
            "the prompt has 24 tokens; the context of `target.gguf` holds 1",
            "give a `--ctx` of at least 25",
        ),
    ],
)
def test_a_wrong_command_says_what_is_right(generate: Run, options: tuple[str, ...], message: str, hint: str) -> None:
    """What cannot work is refused with exit code 2, its value in the message; names are shown as they are."""
    assert generate("hello", *options) == refused(2, message, hint)


def test_a_mistyped_path_suggests_its_neighbour(generate: Run) -> None:
    """A path to nothing names the nearest model in that folder."""
    ran = generate("hello", "-m", "targit.gguf")
    assert ran.code == 2
    assert ran.err.startswith("error: there is no file `targit.gguf`\n\nhint: did you mean `target.gguf`?")


def test_a_prompt_is_needed(generate: Run) -> None:
    """Without an argument and without piped text there is nothing to answer."""
    hint = 'give one: `speclocal generate "..."`, or pipe text into it'
    for prompt in ((), ("",), ("  \n",)):
        assert generate(*prompt) == refused(2, "there is no prompt", hint)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("-t", "-1"), "--temperature"),
        (("-t", "nan"), "--temperature"),
        (("-t", "inf"), "--temperature"),
        (("-t", "warm"), "--temperature"),
        (("--top-k", "-1"), "--top-k"),
        (("--top-p", "1.01"), "--top-p"),
        (("--top-p", "nan"), "--top-p"),
        (("--min-p", "-0.1"), "--min-p"),
        (("--repeat-penalty", "0"), "--repeat-penalty"),
        (("--seed", "-1"), "--seed"),
        (("--seed", str(2**63)), "--seed"),
        (("-n", "-1"), "--max-tokens"),
        (("-n", "2.5"), "--max-tokens"),
        (("-g", "0"), "--num-draft-tokens"),
        (("-g", "65"), "--num-draft-tokens"),
        (("--ctx", "0"), "--ctx"),
        (("--ctx", "16777217"), "--ctx"),
        (("--threads", "0"), "--threads"),
        (("--gpu-layers", "-1"), "--gpu-layers"),
        (("--mode", "fast"), "--mode"),
        (("--draughts",), "--draughts"),
        (("--model",), "--model"),
    ],
)
def test_an_option_out_of_range_is_refused_by_name(generate: Run, options: tuple[str, ...], name: str) -> None:
    """A wrong value, an unknown option and a missing value are refused in the form of every error, by name."""
    ran = generate("hello", *options)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert "\n\nhint: " in ran.err
    assert name in ran.err


@pytest.mark.skipif(llama_cpp.llama_supports_gpu_offload(), reason="this build can use a GPU")
@pytest.mark.parametrize(
    "wish",
    [
        ("--gpu-layers", "20"),
        ("--draft-gpu-layers", "1"),
        ("--device", "CUDA0"),
        ("--main-gpu", "0"),
        ("--tensor-split", "3,1"),
    ],
)
def test_a_gpu_is_not_to_be_had_from_a_build_without(generate: Run, wish: tuple[str, str]) -> None:
    """Whoever asks for one is told before anything is loaded, and what to install."""
    ran = generate("hello", "-m", "cut.gguf", *wish)
    message, hint = ran.err.split("\n\n")
    assert (ran.code, ran.out) == (2, "")
    assert message == f"error: `{' '.join(wish)}` asks for a GPU, and this llama.cpp is built for the CPU alone"
    assert hint.startswith('hint: install it with `CMAKE_ARGS="-DGGML_')


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (("--gpu-layers", "many"), "--gpu-layers many is not a number of layers", "give a number, or `auto`"),
        (("--draft-gpu-layers", ""), "--draft-gpu-layers  is not a number of layers", "give a number, or `auto`"),
        (("--gpu-layers", "-1"), "--gpu-layers -1 is out of range", "give 0 or more, or `auto` for all that fit"),
        (("--tensor-split", "3,x"), "--tensor-split 3,x are not shares", "give one for each device, as in 3,1"),
        (("--tensor-split", "0,0"), "--tensor-split 0,0 are not shares", "give one for each device, as in 3,1"),
        (("--main-gpu", "-1"), "--main-gpu -1 is out of range", "give 0 for the first device, and so on"),
        (
            ("--main-gpu", "0", "--tensor-split", "1,1"),
            "`--main-gpu` puts all layers on one device, `--tensor-split` on several",
            "leave out one of them",
        ),
        (
            ("--kv-type", "q8_0"),
            "`--kv-type q8_0` packs 32 numbers together, and the heads of `target.gguf` have 16",
            "give f16, bf16 or f32",
        ),
    ],
)
def test_a_place_that_cannot_be_is_refused(generate: Run, options: tuple[str, ...], message: str, hint: str) -> None:
    """What is no number, or contradicts itself or the model, is refused with its value."""
    assert generate("hello", *options) == refused(2, message, hint)


def test_a_file_that_is_cut_off_is_refused_by_its_header(generate: Run, models: Models) -> None:
    """A file that ends in the middle is not handed to llama.cpp."""
    ran = generate("hello", "-m", models.cut)
    assert (ran.code, ran.out) == (1, "")
    assert re.fullmatch(
        rf"error: `{models.cut}` is damaged: it is cut off: \d+ of \d+ bytes are there\n\nhint: fetch it again\n",
        ran.err,
    )


def test_a_model_llama_cpp_refuses_is_explained_in_one_line(generate: Run, models: Models) -> None:
    """A file with a sound header of which nothing can be made fails with llama.cpp's reason and the ways out."""
    ran = generate("hello", "-m", models.unloadable)
    message, hint = ran.err.split("\n\n")
    assert (ran.code, ran.out) == (1, "")
    assert message.startswith(f"error: cannot load `{models.unloadable}`: ")
    assert "\n" not in message
    assert hint == f"hint: {DAMAGED}\n"


def test_two_vocabularies_are_no_pair(generate: Run, models: Models) -> None:
    """A draft model that writes a token differently, or is of another kind, is refused before anything is read."""
    different = generate("hello", "-d", models.stranger)
    assert (different.code, different.out) == (1, "")
    assert different.err.startswith(f"error: `{models.stranger}` cannot draft for `{models.target}`: token ")
    assert different.err.endswith(f"\n\nhint: {SEE_WHY.format(models.target, models.stranger)}\n")
    kinds = (
        f"`{models.sentencepiece}` cannot draft for `{models.target}`: "
        "the vocabulary is byte-level BPE in the target and SentencePiece in the draft"
    )
    assert generate("hello", "-d", models.sentencepiece) == refused(
        1, kinds, SEE_WHY.format(models.target, models.sentencepiece)
    )


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "`text` holds no text", "give a file with text in it"),
        (b" \n\t\n", "`text` holds no text", "give a file with text in it"),
        (
            b"\x89PNG\r\n\x1a\n0000",
            "`text` is a PNG image, not text",
            "recognize the text in it first (OCR), speclocal reads text only",
        ),
        (
            b"GGUF\x03\0\0\0",
            "`text` is a GGUF model, not text",
            "name the model with --model, and give the text as the file",
        ),
    ],
)
def test_a_file_without_text_is_refused(run: Run, tmp_path: Path, data: bytes, message: str, hint: str) -> None:
    """A file that is empty or something else is refused before any model is opened: the model named here is absent."""
    (tmp_path / "text").write_bytes(data)
    ran = run("summarize", str(tmp_path / "text"), "-m", "qwen3-8b")
    assert (ran.code, ran.out) == (2, "")
    # Some of these messages give the path, others the name of the file.
    assert ran.err.replace(f"{tmp_path}/", "") == f"error: {message}\n\nhint: {hint}\n"


@pytest.mark.parametrize(
    ("file", "message", "hint"),
    [
        ("none.txt", "`none.txt` cannot be read: No such file or directory", "check its path and permissions"),
        (
            "[red]\x1b[2J.txt",
            "`[red]\u241b[2J.txt` cannot be read: No such file or directory",
            "check its path and permissions",
        ),
        (".", "`.` is a directory", "give one of the files inside"),
        ("/dev/zero", "`/dev/zero` is a device or socket", "give a file, or pipe the text in and give `-`"),
        ("-", "`standard input` holds no text", "give a file with text in it"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(run: Run, models: Models, file: str, message: str, hint: str) -> None:
    """A path that leads to no file is refused; its name is shown, markup and control characters included."""
    assert run("summarize", file, "-m", models.target) == refused(2, message, hint)


def test_binary_data_is_refused_on_stdin_too(generate: Run) -> None:
    """A program piped into `generate` is not sent to the model."""
    ran = generate("hello", stdin=bytes(range(1, 32)) * 40)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: `standard input` looks like binary data, not text\n\nhint: ")


def test_debug_shows_the_traceback(generate: Run) -> None:
    """With `--debug` the error comes with the place where it was raised."""
    ran = generate("hello", "-m", "zzz", "--debug")
    assert ran.out == ""
    assert ran.err.startswith("Traceback (most recent call last):\n")
    assert "UsageError: no model or pair is called `zzz`" in ran.err


def test_debug_keeps_the_exit_code(generate: Run) -> None:
    """A script that checks the exit code need not know about `--debug`."""
    assert generate("hello", "-m", "zzz", "--debug").code == 2


def test_a_name_the_hub_would_refuse_is_an_error_like_others(generate: Run) -> None:
    """`hf:` before something that no repository can be called gives a message, not a traceback."""
    for reference in ("hf:../..:x.gguf", "hf:-a/b:x.gguf", "hf:a/b--c:x.gguf", f"hf:{'a' * 60}/{'b' * 60}:x.gguf"):
        ran = generate("hello", "-m", reference)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"error: `{reference}` does not name a file on the Hub\n")


def test_errors_leave_stdout_empty_with_json_too(generate: Run) -> None:
    """`--json` changes nothing about errors: they stand on stderr, as text."""
    assert generate("hello", "-m", "zzz", "--json") == refused(2, "no model or pair is called `zzz`", FORMS)


def test_a_broken_catalogue_of_the_user_is_an_error_everywhere(
    run: Run, generate: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    """A mistake in the user's models.toml is told by every command that reads it, without a traceback."""
    folder = tmp_path / "speclocal"
    folder.mkdir()
    (folder / "models.toml").write_text("[models.x]\nfil = 1\n")
    for ran in (
        generate("hello", env={"XDG_CONFIG_HOME": str(tmp_path)}),
        run("models", env={"XDG_CONFIG_HOME": str(tmp_path)}),
    ):
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"error: {folder / 'models.toml'}, [models.x]: unknown key `fil`\n\nhint: ")
