"""What a repository on the Hub holds, and which of its files to take when nobody says.

Knows names, sizes and quantizations, not the disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from speclocal.errors import DownloadError
from speclocal.models.catalog import HubFile, HubRepo, nearest
from speclocal.models.hub_errors import check_token, endpoint, translated
from speclocal.models.kinds import Kind, kind_by_name, quantization_in
from speclocal.models.splits import part_names

_BEST_FIRST = [
    *("Q4_K_M", "Q4_K_S", "Q4_K_XL", "Q4_K_L", "IQ4_XS", "IQ4_NL", "Q4_1", "Q4_0", "MXFP4", "MXFP4_MOE"),
    *("Q5_K_M", "Q5_K_S", "Q5_K_XL", "Q5_1", "Q5_0", "Q6_K", "Q8_0"),
    *("Q3_K_L", "Q3_K_M", "Q3_K_XL", "BF16", "F16"),
]
"""Quantizations in the order in which they are chosen: good and small first, then larger, then what is worse."""


@dataclass(frozen=True)
class RepoFile:
    """A GGUF file of a repository. sha256: None for one that the repository keeps in git itself."""

    name: str
    size_bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class Chosen:
    """The file that is taken of a repository, and the names of the models that were passed over."""

    file: HubFile
    others: tuple[str, ...] = ()


def gguf_files(repo: str) -> tuple[RepoFile, ...]:
    """Ask the Hub which GGUF files a repository holds. Raises DownloadError when it does not tell."""
    import huggingface_hub
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile as Entry

    check_token(huggingface_hub.get_token())
    try:
        entries = list(HfApi(endpoint=endpoint()).list_repo_tree(repo, recursive=True))
    except Exception as exc:  # httpx's or requests' errors, by version: all of them mean no list
        raise translated(exc, repo) from exc
    return tuple(
        RepoFile(entry.path, entry.size, entry.lfs.sha256 if entry.lfs else None)
        for entry in entries
        if isinstance(entry, Entry) and entry.path.endswith(".gguf")
    )


def choose(source: HubRepo, names: Sequence[str]) -> Chosen:
    """Return the file to take of those that a repository holds: a model, of the best quantization or the one asked for.

    Raises DownloadError that lists them when there is no model among them, or more than one of that quantization.
    """
    models = [name for name in names if kind_by_name(name) is Kind.MODEL and part_names(name)[0] == name]
    if not models:
        raise DownloadError(
            f"{source.repo} holds no model in a .gguf file",
            f"it holds {', '.join(names)}" if names else "look for a repository with GGUF in its name",
        )
    wanted = [source.quantization] if source.quantization else _BEST_FIRST
    for quantization in wanted:
        fitting = [name for name in models if quantization_in(name) == quantization]
        if len(fitting) == 1:
            return Chosen(HubFile(source.repo, fitting[0]), tuple(name for name in models if name != fitting[0]))
        if fitting:
            count = f"{len(fitting)} models in {quantization}"
            raise DownloadError(f"{source.repo} holds {count}", _name_one(source, fitting))
    if source.quantization:
        raise DownloadError(f"{source.repo} holds no model in {source.quantization}", _name_one(source, models))
    if len(models) == 1:
        return Chosen(HubFile(source.repo, models[0]))
    count = f"{len(models)} models, none in a usual quantization"
    raise DownloadError(f"{source.repo} holds {count}", _name_one(source, models))


def what_is_there(source: HubFile) -> str:
    """Return a hint that lists the models of a repository; vague if the Hub does not tell."""
    try:
        names = [file.name for file in gguf_files(source.repo)]
    except DownloadError:  # only a hint: the error it goes with matters more
        return "check the file's name on the repository's page"
    if not names:
        return "the repository holds no .gguf file"
    return f"{nearest(source.file, names)} The repository holds {', '.join(names)}".strip()


def _name_one(source: HubRepo, names: Sequence[str]) -> str:
    return f"name one, as hf:{source.repo}:FILE; there are {', '.join(names)}"
