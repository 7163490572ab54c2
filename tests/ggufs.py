"""GGUF files byte by byte, right and wrong: small ones for tests that move files about but load none.

Knows the format, not speclocal. tiny.py writes files that llama.cpp can run.
"""

from __future__ import annotations

import struct
from pathlib import Path

Metadata = dict[str, str | int | bool]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(key: str, content: bytes, kind: int) -> bytes:
    """Return an entry of the metadata. kind: the number of its type; 4 is uint32, 7 bool, 8 string, 9 array."""
    return text(key) + struct.pack("<I", kind) + content


def tensor(name: str, *shape: int, kind: int = 0, offset: int = 0) -> bytes:
    """Return the description of a tensor. kind: the number of its type; 0 is F32."""
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + dimensions + struct.pack("<IQ", kind, offset)


def file_of(values: list[bytes], tensors: list[bytes], data: int = 0, version: int = 3) -> bytes:
    """Return a file of entries, tensors and so many bytes of zeros as data."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values)) + b"".join([*values, *tensors])
    return head + bytes(-len(head) % 32 + data)


def entry(key: str, content: str | int | bool) -> bytes:
    if isinstance(content, bool):
        return value(key, struct.pack("<?", content), 7)
    if isinstance(content, int):
        return value(key, struct.pack("<I", content), 4)
    return value(key, text(content), 8)


def model(num_floats: int = 1024, metadata: Metadata | None = None, *, architecture: str = "llama") -> bytes:
    """Return a file that says it is a whole model: one tensor of so many numbers. Nobody can run it."""
    about: Metadata = {
        "general.architecture": architecture,
        f"{architecture}.context_length": 4096,
        "general.file_type": 15,
        "general.license": "mit",
    }
    about |= metadata or {}
    values = [entry(key, content) for key, content in about.items()]
    return file_of(values, [tensor("token_embd.weight", num_floats)], 4 * num_floats)


def split_model(name: str, count: int, num_floats: int = 256) -> dict[str, bytes]:
    """Return the files of a model in `count` parts, by name, as llama.cpp splits one."""
    files = {}
    for number in range(count):
        split: Metadata = {"split.no": number, "split.count": count, "split.tensors.count": count}
        about: Metadata = split if number else {"general.architecture": "llama", "llama.context_length": 4096, **split}
        values = [entry(key, content) for key, content in about.items()]
        part = file_of(values, [tensor(f"blk.{number}.weight", num_floats)], 4 * num_floats)
        files[f"{name}-{number + 1:05}-of-{count:05}.gguf"] = part
    return files


def write(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write files into a folder and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]
