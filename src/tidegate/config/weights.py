"""Finding the file, folder, source or repository that a policy calls its weights or a LoRA adapter."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from tidegate.config.engines import EMULATED, LLAMACPP, TRTLLM
from tidegate.engine.catalogue import PROFILES
from tidegate.weights.source import Source, is_remote, parsed

_PACKAGE = "package:"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/]\S*")
_LOCAL_STARTS = ("/", "./", "../", "~")
_GGUF = ".gguf"

_READS_FOLDERS = ("vllm", "sglang", TRTLLM)
_A_FILE = "it must be one file, which is what {engine} reads; this is a folder"
_A_FOLDER = "it must be a folder with the model's files, which is what {engine} reads; this is a file"


def found(written: str, engine: str, base: Path) -> str:
    """An absolute path for what is on this machine; what is written for a source, or for a name that the engine
    fetches.

    Raises:
        ValueError: it is neither, with what was looked for.
    """
    if engine == EMULATED:
        return _profile(written)
    if is_remote(written):
        return _source(written, engine)
    if written.startswith(_PACKAGE):
        return _of_right_kind(_in_package(written.removeprefix(_PACKAGE)), engine)
    path = resolved(written, base)
    is_local = written.startswith(_LOCAL_STARTS) or written.endswith(_GGUF) or engine == LLAMACPP
    if is_local or _is_there(path):
        return _of_right_kind(Path(existing(written, base)), engine)
    if _REPOSITORY.fullmatch(written) or _ELSEWHERE.fullmatch(written):
        return written
    raise ValueError(
        "it must be a path, a source (https://, s3:// or hf://), a repository name such as Qwen/Qwen3-32B that the "
        "engine fetches, or package:NAME/FILE for a file inside an installed Python package"
    )


def found_adapter(written: str, engine: str, base: Path) -> str:
    """The same for a LoRA adapter.

    Raises:
        ValueError: there is none.
    """
    if engine == EMULATED:
        # It only needs the names.
        return written
    if is_remote(written):
        return _source(written, engine)
    path = resolved(written, base)
    # Of a name of one word, and of what TensorRT-LLM is told, an engine makes a path.
    fetches = engine not in (LLAMACPP, TRTLLM) and "/" in written and _REPOSITORY.fullmatch(written)
    if written.startswith(_LOCAL_STARTS) or _is_there(path) or not fetches:
        existing(written, base)
        if engine == LLAMACPP and not path.is_file():
            raise ValueError(_A_FILE.format(engine=engine))
        return str(path)
    return written


def remote(written: str | None, sha256: str | None = None) -> Source | None:
    """The source that is to be fetched; None when there is nothing to fetch."""
    return parsed(written, sha256) if written is not None and is_remote(written) else None


def resolved(written: str, base: Path) -> Path:
    """An absolute path; relative ones start at ``base``."""
    try:
        path = Path(written).expanduser()
    except RuntimeError:
        # ``~name`` of a user who is not there is a plain name.
        path = Path(written)
    return (base / path).absolute()


def existing(written: str, base: Path) -> str:
    """The absolute path of a file or folder that is there.

    Raises:
        ValueError: it is not.
    """
    path = resolved(written, base)
    if not _is_there(path):
        message = f"it must be a file or folder that exists; there is none at {path}"
        raise ValueError(message)
    return str(path)


def folder_problem(written: str, base: Path) -> str | None:
    """Why this cannot be a folder of ours; None when it is one, or could be made."""
    path = resolved(written, base)
    for part in (path, *path.parents):
        try:
            if part.is_dir():
                return None
            if _is_there(part):
                return f"it must be a folder; {part} is a file"
        except OSError:
            return f"it must be a folder; {part} cannot be looked at"
    return None


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # A name too long for the file system, or a folder that may not be searched.
        return False


def _profile(written: str) -> str:
    if written not in PROFILES:
        raise ValueError(f"it must be the name of a profile: {', '.join(sorted(PROFILES))}")
    return written


def _source(written: str, engine: str) -> str:
    source = parsed(written)
    if engine == LLAMACPP and source.is_folder:
        example = f"{source.shown.rstrip('/')}/FILE"
        raise ValueError(f"it must name one file, which is what {engine} reads, such as {example}")
    if engine in _READS_FOLDERS and not source.is_folder and not source.shown.endswith(_GGUF):
        hint = f", such as {source.shown}/" if source.scheme == "s3" else ""
        raise ValueError(f"it must be a folder with the model's files, which is what {engine} reads{hint}")
    return written


def _of_right_kind(path: Path, engine: str) -> str:
    if engine == LLAMACPP and not path.is_file():
        raise ValueError(_A_FILE.format(engine=engine))
    if engine in _READS_FOLDERS and path.is_file() and path.suffix != _GGUF:
        raise ValueError(_A_FOLDER.format(engine=engine))
    return str(path)


def _in_package(written: str) -> Path:
    name, _, inside = written.partition("/")
    # An absolute path behind the name would be joined as itself.
    is_inside = bool(inside) and not Path(inside).is_absolute() and ".." not in Path(inside).parts
    if not name.isidentifier() or not is_inside:
        raise ValueError("it must be package:NAME/FILE, the path of a file inside a Python package")
    # Finds the package's folder without running any of it.
    spec = importlib.util.find_spec(name)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        message = f"the Python package {name} must be installed (pip install {name.replace('_', '-')})"
        raise ValueError(message)
    path = Path(folders[0]) / inside
    if not path.is_file():
        message = f"it must name a file that exists; the package {name} has none called {inside}"
        raise ValueError(message)
    return path
