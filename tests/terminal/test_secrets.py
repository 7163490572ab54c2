"""No token and no password gets on the screen, and nothing else is hidden."""

from __future__ import annotations

import pytest

from speclocal.terminal.secrets import redacted

TOKEN = "hf_" + "a1B2" * 8


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"Authorization: Bearer {TOKEN}", "Authorization: Bearer ***"),
        ("headers={'authorization': 'Bearer abc'}", "headers={'authorization': 'Bearer ***'}"),
        (f"key={TOKEN}, repo=a/b", "key=***, repo=a/b"),
        ("http://someone:password@proxy.example:3128/x", "http://***@proxy.example:3128/x"),
        ("the token is not-hf-but-secret", "the token is ***"),
    ],
)
def test_tokens_and_passwords_are_starred(monkeypatch: pytest.MonkeyPatch, said: str, shown: str) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-hf-but-secret")
    assert redacted(said) == shown


@pytest.mark.parametrize("said", ["hf_hub_download", "hf:me/repo:m.gguf", "a@b", "https://huggingface.co/me/r"])
def test_what_is_no_secret_stays(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """Also where the token in the environment is a word that messages use."""
    monkeypatch.setenv("HF_TOKEN", "me")
    assert redacted(said) == said
