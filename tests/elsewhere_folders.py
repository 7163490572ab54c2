"""Folders of models as other programs lay them out.

Knows Ollama's, LM Studio's and the Hub's layouts, not speclocal.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

COMMIT = "d" * 40


def put_ollama(root: Path, name: str, content: bytes, *, adapter: bool = False) -> Path:
    """Put a model into Ollama's folder as `ollama pull` does, and return the file of its weights."""
    repo, _, tag = name.partition(":")
    host = "" if repo.count("/") == 2 else "registry.ollama.ai/" if "/" in repo else "registry.ollama.ai/library/"
    digest = hashlib.sha256(content).hexdigest()
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00", "size": 1},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(content)},
    ]
    if adapter:
        layers.append({"mediaType": "application/vnd.ollama.image.adapter", "digest": "sha256:01", "size": 1})
    manifest = root / "manifests" / f"{host}{repo}" / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    blob = root / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    return blob


def put_lm_studio(home: Path, name: str, content: bytes, *, folder: str = ".lmstudio/models") -> Path:
    """Put a file into LM Studio's folder and return its path. name: publisher/repository/file."""
    path = home / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def put_hub(cache: Path, repo: str, name: str, content: bytes) -> Path:
    """Put a file into the Hub's cache as its client does, and return its path in the snapshot."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
    path = folder / "snapshots" / COMMIT / name
    for directory in (blob.parent, path.parent, folder / "refs"):
        directory.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    (folder / "refs" / "main").write_text(COMMIT)
    path.symlink_to(blob)
    return path


def states(root: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of everything below a folder: what must stay as it is."""
    found = sorted(root.rglob("*"))
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in found}
