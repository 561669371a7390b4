"""What there is at a source: the names, lengths and checksums of its files."""

from __future__ import annotations

import asyncio
import base64
import binascii
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree as ET

import msgspec

from tidegate.weights.errors import WeightsError, WrongChecksum
from tidegate.weights.remote import Remote
from tidegate.weights.settings import Endpoints
from tidegate.weights.source import Source, is_safe_name, shown
from tidegate.weights.web import Anonymous, AwsSigner, Bearer, Signer, Web

_NOT_WEIGHTS = (
    ".gitattributes",
    ".gitignore",
    "*.md",
    "*.png",
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.pdf",
    "*.svg",
    "*.webp",
)
_SECOND_COPIES = (
    "pytorch_model*",
    "*.pth",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.onnx_data",
    "*.ot",
    "*.gguf",
    "original/*",
)
"""The same weights in another format, in repositories that have them as safetensors: up to three times the bytes."""
_FILES_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Listing:
    """All that is to be fetched from one source."""

    files: tuple[Remote, ...]
    revision: str | None = None
    """The commit that a branch stood at."""


def signer_for(source: Source, endpoints: Endpoints) -> Signer:
    """In whose name a source is asked."""
    if source.scheme == "hf" and endpoints.hub_token:
        return Bearer(endpoints.hub_token)
    if source.scheme == "s3" and endpoints.aws_keys is not None:
        return AwsSigner(endpoints.aws_keys, endpoints.s3_region)
    return Anonymous()


async def listing_of(source: Source, web: Web, endpoints: Endpoints) -> Listing:
    """What there is.

    Raises:
        WeightsError: nothing, or it cannot be asked.
    """
    match source.scheme:
        case "hf":
            listing = await _hub(source, web, endpoints)
        case "s3":
            listing = await _s3(source, web, endpoints)
        case _:
            listing = Listing((_one_file(source),))
    if not listing.files:
        raise WeightsError(f"{source.shown} holds no file")
    unsafe = [file.name for file in listing.files if not is_safe_name(file.name)]
    if unsafe or len({file.name for file in listing.files}) < len(listing.files):
        raise WeightsError(f"{source.shown} lists a file that cannot be put into a folder")
    return listing


def _one_file(source: Source) -> Remote:
    name = unquote(urlsplit(source.written).path.rpartition("/")[2])
    return Remote(name if is_safe_name(name) else "weights", source.written, sha256=source.sha256)


# ---- hub ----


class _Lfs(msgspec.Struct):
    sha256: str
    size: int


class _Sibling(msgspec.Struct, rename={"blob_id": "blobId"}):
    rfilename: str
    size: int | None = None
    blob_id: str | None = None
    lfs: _Lfs | None = None


class _Revision(msgspec.Struct):
    sha: str
    siblings: list[_Sibling]


async def _hub(source: Source, web: Web, endpoints: Endpoints) -> Listing:
    """By ``GET /api/models/REPO/revision/REV?blobs=true``; the files are those of one commit."""
    base, (repo, revision, wanted) = endpoints.hub_url(), source.hub
    url = f"{base}/api/models/{repo}/revision/{quote(revision, safe='')}"
    body, _ = await web.read("GET", url, {"blobs": "true"})
    try:
        found = msgspec.json.decode(body, type=_Revision)
    except msgspec.DecodeError:
        raise WeightsError(f"{shown(url)} is not the list of a repository") from None
    if wanted is not None:
        siblings = [each for each in found.siblings if each.rfilename == wanted]
        if not siblings:
            raise WeightsError(f"{repo} at {found.sha[:12]} has no file {wanted}")
    else:
        siblings = _needed(found.siblings)
    where = f"{base}/{repo}/resolve/{quote(found.sha, safe='')}"
    expected = source.sha256 if wanted is not None else None
    return Listing(tuple(_hub_file(each, where, expected) for each in siblings), found.sha)


def _hub_file(sibling: _Sibling, where: str, expected: str | None) -> Remote:
    name, lfs = sibling.rfilename, sibling.lfs
    url = f"{where}/{quote(name)}"
    if lfs is not None:
        if expected is not None and expected != lfs.sha256:
            raise WrongChecksum(f"{name} has the SHA-256 {lfs.sha256}, not {expected}")
        return Remote(name, url, lfs.size, lfs.sha256)
    return Remote(name, url, sibling.size, expected, sibling.blob_id)


def _needed(siblings: list[_Sibling]) -> list[_Sibling]:
    """Without pictures and prose, and without second copies of the same weights."""
    has_tensors = any(each.rfilename.endswith(".safetensors") for each in siblings)
    skipped = (*_NOT_WEIGHTS, *_SECOND_COPIES) if has_tensors else _NOT_WEIGHTS
    return [s for s in siblings if not any(fnmatch.fnmatchcase(s.rfilename, pattern) for pattern in skipped)]


# ---- S3 ----


async def _s3(source: Source, web: Web, endpoints: Endpoints) -> Listing:
    bucket, key = source.bucket
    base = f"{endpoints.s3_url()}/{bucket}"
    if not source.is_folder:
        name = key.rpartition("/")[2]
        return Listing((await _object(web, base, key, name, None, source.sha256),))
    sizes = await _objects_below(web, base, key)
    # The session's own limit of connections bounds how many are asked at once.
    files = await asyncio.gather(
        *(_object(web, base, each, each[len(key) :], size, None) for each, size in sizes.items())
    )
    return Listing(tuple(files))


async def _objects_below(web: Web, base: str, prefix: str) -> dict[str, int]:
    """By ListObjectsV2, page by page."""
    found: dict[str, int] = {}
    query = {"list-type": "2", "prefix": prefix}
    while True:
        body, _ = await web.read("GET", base, query)
        page = _xml(body, base)
        for entry in page.iter("Contents"):
            key, size = entry.findtext("Key", ""), entry.findtext("Size", "")
            # A "folder" is an object of no bytes whose name ends in a slash.
            if key.startswith(prefix) and not key.endswith("/") and size.isdecimal():
                found[key] = int(size)
        following = page.findtext("NextContinuationToken")
        if page.findtext("IsTruncated") != "true" or not following or len(found) > _FILES_MAX:
            return found
        query = {**query, "continuation-token": following}


def _xml(body: bytes, where: str) -> ET.Element:
    # Expat of today bounds the growth of entities, and no list of S3 declares any.
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise WeightsError(f"{shown(where)} is not a list of objects")
    try:
        root = ET.fromstring(body)  # noqa: S314 (no document type, see above)
    except ET.ParseError:
        raise WeightsError(f"{shown(where)} is not a list of objects") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


async def _object(web: Web, base: str, key: str, name: str, size: int | None, expected: str | None) -> Remote:
    """With the SHA-256 that S3 keeps for objects that were uploaded with one, unless another is expected."""
    url = f"{base}/{quote(key, safe='/-_.~')}"
    if expected is None:
        _, headers = await web.read("HEAD", url, extra={"x-amz-checksum-mode": "ENABLED"})
        expected = _kept_sha256(headers)
        length = headers.get("content-length", "")
        size = int(length) if length.isdecimal() else size
    return Remote(name, url, size, expected)


def _kept_sha256(headers: Mapping[str, str]) -> str | None:
    written = headers.get("x-amz-checksum-sha256")
    # That of an object in parts is a checksum of checksums, and says so with -N.
    if written is None or headers.get("x-amz-checksum-type", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    try:
        digest = base64.b64decode(written, validate=True)
    except binascii.Error:
        return None
    return digest.hex() if len(digest) == 32 else None
