"""Finding the file or the repository that a policy calls its weights."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from tidegate.config.engines import EMULATED, LLAMACPP

_PACKAGE = "package:"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/]\S*")
_LOCAL_STARTS = ("/", "./", "../", "~")


def found(written: str, engine: str, base: Path) -> str:
    """An absolute path for what is on this machine; the name itself for what the engine fetches.

    Raises:
        ValueError: it is neither, with what was looked for.
    """
    if engine == EMULATED:
        return written
    if written.startswith(_PACKAGE):
        return str(_in_package(written.removeprefix(_PACKAGE)))
    path = resolved(written, base)
    is_local = written.startswith(_LOCAL_STARTS) or written.endswith(".gguf") or engine == LLAMACPP
    if is_local or _is_there(path):
        return existing(written, base)
    if _REPOSITORY.fullmatch(written) or _REMOTE.fullmatch(written):
        return written
    raise ValueError(
        "it must be a path, a repository name such as Qwen/Qwen3-32B, or package:NAME/FILE for a file "
        "inside an installed Python package"
    )


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


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        # A name too long for the file system, or a folder that may not be searched.
        return False


def _in_package(written: str) -> Path:
    name, _, inside = written.partition("/")
    if not name.isidentifier() or not inside or ".." in Path(inside).parts:
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
