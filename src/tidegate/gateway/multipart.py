"""The two fields that matter in an uploaded form, found without copying the upload.

The form itself goes to the engine as it came. The grammar is RFC 7578 with nothing optional: CR LF,
one Content-Disposition a part, quoted names.
"""

from __future__ import annotations

import re

from tidegate.gateway.body import Asked
from tidegate.gateway.errors import invalid

BOUNDARY = re.compile(
    rb"multipart/form-data; ?boundary=(?:\"([0-9A-Za-z'()+_,\-./:=? ]{1,70})\"|([0-9A-Za-z'()+_,\-./:=?]{1,70}))",
    re.IGNORECASE,
)
NAME = re.compile(
    rb"content-disposition: ?form-data; ?name=\"([^\"\r\n]{0,100})\"(?:;[^\r\n]*)?\r\n", re.IGNORECASE
)
PARTS_MAX = 100
PART_HEAD_MAX = 4096
FIELD_MAX = 256


def boundary_of(content_type: bytes) -> bytes | None:
    """The boundary that the Content-Type names; None when it names none that is acceptable."""
    match = BOUNDARY.fullmatch(content_type)
    return None if match is None else (match[1] or match[2])


def read_form(body: bytes, boundary: bytes) -> Asked:
    """Find ``model`` and ``stream`` in a form.

    Raises:
        Refusal: 400 when the form is not well-formed, or has no model.
    """
    wanted: dict[bytes, bytes] = {}
    delimiter = b"\r\n--" + boundary
    if not body.startswith(delimiter[2:]):
        raise _broken()
    position = len(delimiter) - 2
    for _ in range(PARTS_MAX + 1):
        if body.startswith(b"--", position):
            return _asked(wanted)
        if not body.startswith(b"\r\n", position):
            raise _broken()
        blank = body.find(b"\r\n\r\n", position, position + PART_HEAD_MAX)
        end = body.find(delimiter, position)
        if blank < 0 or end < 0 or end < blank + 2:
            raise _broken()
        name = NAME.search(body, position + 2, blank + 2)
        if name is None:
            raise _broken()
        if name[1] in (b"model", b"stream"):
            value = body[blank + 4 : end]
            if name[1] in wanted or len(value) > FIELD_MAX:
                raise invalid("a field of the form is given twice or too long", name[1].decode())
            wanted[name[1]] = value
        position = end + len(delimiter)
    raise invalid(f"the form has more than {PARTS_MAX} parts")


def _asked(wanted: dict[bytes, bytes]) -> Asked:
    try:
        model = wanted.get(b"model", b"").decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("the field 'model' is not UTF-8", "model") from None
    if not model:
        raise invalid("the field 'model' is missing", "model")
    return Asked(model=model, stream=wanted.get(b"stream", b"").lower() in (b"true", b"1"))


def _broken() -> Exception:
    return invalid("the form is not well-formed multipart/form-data")
