"""What a file of evidence is: which kinds there are by their content, and how many."""

import re
from typing import Final, Literal, NamedTuple

import msgspec

from opentill.core.errors import Invalid

Kind = Literal["application/pdf", "image/png", "image/jpeg"]
Reason = Literal["missing", "kind", "size", "many", "closed"]

MAX_BYTES: Final = 5 * 1024 * 1024  # of a file
MAX_FILES: Final = 10  # of a dispute
_MAX_NAME: Final = 120
_ACCEPTED: Final[dict[Reason, str]] = {
    "missing": "file must be a file that is not empty",
    "kind": "file must be a whole PDF, PNG or JPEG file",
    "size": "file must be at most 5 MB",
    "many": f"file must be one of at most {MAX_FILES} of a dispute",
    "closed": "file must be for a dispute that is open",
}


class _Form(NamedTuple):
    """How the files of a kind begin, what they have further on, and how their names end."""

    kind: Kind
    start: bytes
    end: bytes
    endings: tuple[str, ...]


# ISO 32000-1, the header and the end of a file; PNG, the signature, IHDR and IEND; ITU-T T.81, the
# markers SOI and EOI. A PDF begins at its first byte, so that nothing else stands before it.
_FORMS: Final = (
    _Form("application/pdf", b"%PDF-", b"%%EOF", (".pdf",)),
    _Form("image/png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", b"IEND\xaeB`\x82", (".png",)),
    _Form("image/jpeg", b"\xff\xd8\xff", b"\xff\xd9", (".jpg", ".jpeg")),
)
_APART: Final = re.compile(r"[/\\]")
# What a file name cannot have, or what shows it as another: signs of systems, controls, marks that
# turn text around.
_UNFIT: Final = re.compile(
    '[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff<>:"|?*;%]'
)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a dispute, without what is in it; ``size`` in bytes."""

    merchant_id: str
    id: str
    dispute_id: str
    number: int
    name: str
    kind: Kind
    size: int
    sha256: bytes
    who: str
    at: int


class EvidenceRefused(Invalid):
    """A file that is not taken as evidence."""

    def __init__(self, why: Reason) -> None:
        """``why``: which rule it breaks."""
        super().__init__("file", _ACCEPTED[why])
        self.why = why


def kind_of(content: bytes) -> Kind:
    """Return what a file is by its content; its name says nothing. Raises EvidenceRefused."""
    if not content:
        raise EvidenceRefused("missing")
    if len(content) > MAX_BYTES:
        raise EvidenceRefused("size")
    for form in _FORMS:
        if content.startswith(form.start) and content.rfind(form.end) > 0:
            return form.kind
    raise EvidenceRefused("kind")


def name_of(given: str, kind: Kind) -> str:
    """Return a file's name for whoever downloads it: no path, and an ending that is its kind's."""
    endings = next(form.endings for form in _FORMS if form.kind == kind)
    base = " ".join(_UNFIT.sub(" ", _APART.split(given)[-1]).split()).strip(". ")
    if base.lower().endswith(endings):
        stem, _, ending = base.rpartition(".")
    else:
        stem, ending = base, endings[0][1:]
    return f"{stem.strip('. ')[: _MAX_NAME - 6] or 'file'}.{ending}"
