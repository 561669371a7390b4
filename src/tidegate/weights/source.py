"""Where weights come from, as a policy writes it.

``https://HOST/PATH``, ``http://…``    one file
``s3://BUCKET/KEY``                    one object, or with a ``/`` at the end all below that prefix
``hf://OWNER/NAME[@REVISION][/FILE]``  a repository in the layout of the Hugging Face hub, or one file of it
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

SCHEMES = ("https", "http", "s3", "hf")
_SCHEME = re.compile(rf"(?:{'|'.join(SCHEMES)})://")
_HUB = re.compile(
    r"hf://(?P<repo>[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*)"
    r"(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._-]*))?(?:/(?P<file>.+))?"
)
_BUCKET = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<key>.+)")
_SIGNED = re.compile(
    r"x-amz-|x-goog-|sig$|signature$|expires$|token$|key-pair-id$|policy$|^s[a-z]$", re.IGNORECASE
)
"""Parts of a query that say who may fetch and until when, and not what: those of S3, GCS, CloudFront, Azure."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place, and what is expected to be there."""

    written: str
    """As in the policy. It may be a signed address: never to be shown."""
    sha256: str | None = None
    """Of the file; of a folder, that of its list (see ``tree_digest``)."""

    def __repr__(self) -> str:
        return f"<Source {self.shown}>"

    @property
    def scheme(self) -> str:
        """One of ``SCHEMES``."""
        return self.written.partition("://")[0]

    @property
    def is_folder(self) -> bool:
        """Many files, which an engine is given as a folder."""
        if self.scheme == "hf":
            return self.hub[2] is None
        return self.scheme == "s3" and self.written.endswith("/")

    @property
    def shown(self) -> str:
        """For people: without a query, which may be a signature."""
        return shown(self.written)

    @property
    def key(self) -> str:
        """The same for two spellings of the same place: a signature that was renewed changes nothing."""
        meant = self.written
        if self.scheme in ("http", "https"):
            parts = urlsplit(meant)
            query = [
                pair for pair in parse_qsl(parts.query, keep_blank_values=True) if not _SIGNED.search(pair[0])
            ]
            meant = parts._replace(query=urlencode(query), fragment="").geturl()
        return hashlib.sha256(f"{meant}\n{self.sha256 or ''}".encode()).hexdigest()[:32]

    @property
    def hub(self) -> tuple[str, str, str | None]:
        """Repository, revision and file of an ``hf`` source."""
        found = _HUB.fullmatch(self.written)
        assert found is not None
        return found["repo"], found["revision"] or "main", found["file"]

    @property
    def bucket(self) -> tuple[str, str]:
        """Bucket and key (or prefix) of an ``s3`` source."""
        found = _BUCKET.fullmatch(self.written)
        assert found is not None
        return found["bucket"], found["key"]


def is_remote(written: str) -> bool:
    """Whether Tidegate fetches it. A bare repository name is for the engine to fetch."""
    return _SCHEME.match(written) is not None


def parsed(written: str, sha256: str | None = None) -> Source:
    """A source that can be fetched.

    Raises:
        ValueError: what is written is none, with what is allowed; the message repeats nothing of it.
    """
    scheme = written.partition("://")[0]
    if scheme in ("http", "https"):
        _check_address(written)
    elif scheme == "s3":
        if not _BUCKET.fullmatch(written) or not _is_tidy(written.partition("://")[2].partition("/")[2]):
            raise ValueError("it must be s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for all that is below it")
    elif scheme == "hf":
        found = _HUB.fullmatch(written)
        if found is None or not _is_tidy(found["file"] or "x"):
            raise ValueError("it must be hf://OWNER/NAME, with @REVISION and /FILE where they are wanted")
    else:
        raise ValueError(f"it must begin with one of {', '.join(f'{name}://' for name in SCHEMES)}")
    return Source(written, sha256)


def _check_address(written: str) -> None:
    try:
        parts = urlsplit(written)
        host, _port = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host or parts.path in ("", "/") or parts.path.endswith("/") or re.search(r"\s", written):
        raise ValueError("it must be https://HOST/PATH, the address of one file")
    if "@" in parts.netloc:
        raise ValueError(
            "an address must not hold a name and password; use a signed address or another source"
        )


def _is_tidy(path: str) -> bool:
    """No way out of the folder that it is put into."""
    return not any(part in ("", ".", "..") for part in path.removesuffix("/").split("/")) and "\\" not in path


def shown(address: str) -> str:
    """An address without name, password, query and fragment: what may be said aloud."""
    scheme, _, rest = address.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    host, slash, path = rest.partition("/")
    if scheme != "hf":
        host = host.rpartition("@")[2]
    return f"{scheme}://{host}{slash}{path}"


def is_safe_name(name: str) -> bool:
    """A file name from a listing that may be written below a folder of ours."""
    return bool(name) and len(name) < 1024 and "\0" not in name and not name.endswith("/") and _is_tidy(name)


def tree_digest(files: dict[str, str]) -> str:
    r"""SHA-256 of a folder: of the lines ``SHA256  NAME`` of its files, sorted by name in bytes.

    ``(cd FOLDER && find . -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)``.
    """
    names = sorted(files, key=lambda name: name.encode())
    return hashlib.sha256("".join(f"{files[name]}  {name}\n" for name in names).encode()).hexdigest()
