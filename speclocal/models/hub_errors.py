"""What the Hub's client raises, turned into what a person can do about it: one message for each way there is to fail.

Knows the client's errors and the Hub's answers, not what was to be done with the file. No message repeats a token, nor
the user and password that an address in the environment may carry.
"""

import errno
import os
from pathlib import Path
from urllib.parse import urlsplit

from speclocal.errors import DownloadError
from speclocal.models import files

_SIGN_IN = "set HF_TOKEN, or run `hf auth login`"
_DISK = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT)


def endpoint() -> str | None:
    """Return the address of a mirror, as the environment has it; None for the Hub itself."""
    return os.environ.get("HF_ENDPOINT") or None


def check_token(token: str | None) -> None:
    """Raise for a token no header can carry: the HTTP library would print it in its own error."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise DownloadError("the Hub token has characters no token has", "set HF_TOKEN again, or run `hf auth login`")


def translated(error: Exception, repo: str, file: str = "") -> DownloadError:
    """Return what an error of the Hub's client means, and the way out. The only place that knows them.

    An absent file is not among them: what to say then takes another question to the Hub.
    """
    import huggingface_hub
    from huggingface_hub import constants, errors

    source = f"hf:{repo}:{file}" if file else f"hf:{repo}"
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # it only says that the cache could not help either
    if isinstance(error, errors.HfHubHTTPError):
        return _refusal(error, repo, source, has_token=huggingface_hub.get_token() is not None)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return DownloadError(
            f"{source} is not on this disk, and HF_HUB_OFFLINE forbids to download it", "unset HF_HUB_OFFLINE"
        )
    if isinstance(error, errors.FileMetadataError):
        return DownloadError(
            f"what answers for {source} is not a Hub", "check HF_ENDPOINT, the proxy settings and the firewall"
        )
    if isinstance(error, errors.HFValidationError):
        return DownloadError(f"{repo} is not a repository name: {error}")
    if _is(error, "ProxyError") and "407" in str(error):
        return DownloadError(
            f"the proxy wants a name and a password{_proxy()}",
            "put them into HTTPS_PROXY, in front of the host: NAME:PASSWORD@HOST",
        )
    if _is(error, "ProxyError"):
        return DownloadError(
            f"the proxy does not let {source} through{_proxy()}",
            "check HTTPS_PROXY and HTTP_PROXY; NO_PROXY lists hosts that need none",
        )
    if _is(error, "TimeoutException"):
        return DownloadError(
            f"{_host()} does not answer in time for {source}",
            "try again, or allow more seconds with HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT",
        )
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return DownloadError(
            f"the certificate of {_host()} is not trusted here",
            "behind a company's proxy, name its certificates in SSL_CERT_FILE",
        )
    if isinstance(error, OSError) and error.errno in _DISK:
        return files.cannot_write(Path(constants.HF_HUB_CACHE), error)
    if "Consistency check failed" in str(error):
        return DownloadError(
            f"{source} arrived with another size than {_host()} gives for it", "try again; nothing of it is kept"
        )
    return DownloadError(
        f"the Hub cannot be reached for {source} ({type(error).__name__} at {_host()})",
        "check the connection, the proxy settings and HF_ENDPOINT, then try again",
    )


def _refusal(error: Exception, repo: str, source: str, *, has_token: bool) -> DownloadError:
    """Return what an answer of the Hub means. For a private repository it answers as for one that does not exist."""
    from huggingface_hub import constants, errors

    assert isinstance(error, errors.HfHubHTTPError)
    status = error.response.status_code
    if isinstance(error, errors.GatedRepoError):
        page = f"{_without_login(endpoint() or constants.ENDPOINT)}/{repo}"
        return DownloadError(
            f"{repo} is gated: its owner gives access to accounts that accept the terms",
            f"accept them at {page}, then set HF_TOKEN or run `hf auth login`",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        if has_token:
            return DownloadError(
                f"the Hub has no repository {repo} that your token may read",
                "check the spelling, and that the token belongs to an account with access",
            )
        return DownloadError(
            f"the Hub has no repository {repo}, or it is private",
            f"check the spelling; for a private repository {_SIGN_IN}",
        )
    if isinstance(error, errors.DisabledRepoError):
        return DownloadError(f"the Hub has disabled {repo}", "choose another repository")
    match status:
        case 401:
            return DownloadError("the Hub refuses the token", f"{_SIGN_IN} with a valid one, or unset it")
        case 403:
            return DownloadError(
                f"the Hub refuses access to {repo}", "use a token that may read this repository (HF_TOKEN)"
            )
        case 429:
            return DownloadError(
                f"the Hub answers {source} with status 429: too many requests from here",
                "wait some minutes" if has_token else f"wait some minutes, or {_SIGN_IN}: accounts may ask more often",
            )
        case _ if status >= 500:
            return DownloadError(
                f"the Hub has trouble: it answers with status {status} for {source}", "try again later"
            )
    return DownloadError(f"the Hub answers with status {status} for {source}", "try again later")


def _is(error: Exception, name: str) -> bool:
    """Return whether an error is of a class of the HTTP library, which is another package from version to version."""
    return any(kind.__name__ == name for kind in type(error).__mro__)


def _host() -> str:
    from huggingface_hub import constants

    return _without_login(endpoint() or constants.ENDPOINT)


def _proxy() -> str:
    """Return where the proxy is, without its password."""
    names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
    address = next((os.environ[name] for name in names if os.environ.get(name)), "")
    return f" ({_without_login(address)})" if address else ""


def _without_login(address: str) -> str:
    """Return an address without the user and the password that may stand in it."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
