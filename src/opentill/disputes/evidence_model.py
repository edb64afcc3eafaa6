"""Files of evidence: their kinds, recognized by content, their names and their limits."""

import re
from typing import Final, Literal, NamedTuple

import msgspec

from opentill.core.errors import Invalid

Kind = Literal["application/pdf", "image/png", "image/jpeg"]
Reason = Literal["missing", "kind", "size", "many", "accepted", "closed", "responded"]

MAX_BYTES: Final = 5 * 1024 * 1024  # a file has at most this many bytes
MAX_FILES: Final = 10  # a dispute has at most this many files
_MAX_NAME: Final = 120
_ACCEPTED: Final[dict[Reason, str]] = {
    "missing": "file must be a file that is not empty",
    "kind": "file must be a whole PDF, PNG or JPEG file",
    "size": "file must be at most 5 MB",
    "many": f"file must be one of at most {MAX_FILES} of a dispute",
    "accepted": "file must be for a dispute that was not accepted",
    "closed": "file must be for a dispute that is open",
    "responded": "file must be of a dispute that is open and has no response",
}


class _Form(NamedTuple):
    """A kind of file: its first bytes, bytes that must follow somewhere, and its extensions."""

    kind: Kind
    start: bytes
    end: bytes
    endings: tuple[str, ...]


# The marks at both ends of a file: of PDF the header and the end-of-file marker (ISO 32000-1), of
# PNG the signature, IHDR and IEND, of JPEG the markers SOI and EOI (ITU-T T.81). A PDF must begin
# at the first byte, so that no other format can precede it.
_FORMS: Final = (
    _Form("application/pdf", b"%PDF-", b"%%EOF", (".pdf",)),
    _Form("image/png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", b"IEND\xaeB`\x82", (".png",)),
    _Form("image/jpeg", b"\xff\xd8\xff", b"\xff\xd9", (".jpg", ".jpeg")),
)
_SEPARATORS: Final = re.compile(r"[/\\]")
# Characters that file systems reserve, or that make a name look different: control characters and
# marks that change the direction of text.
_UNFIT: Final = re.compile(
    '[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff<>:"|?*;%]'
)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a dispute, without its content; ``size`` in bytes."""

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
    """A file that is not accepted as evidence."""

    def __init__(self, why: Reason) -> None:
        """``why``: the rule that the file violates."""
        super().__init__("file", _ACCEPTED[why])
        self.why = why


def kind_of(content: bytes) -> Kind:
    """Return the kind of a file by its content, not by its name. Raises EvidenceRefused."""
    if not content:
        raise EvidenceRefused("missing")
    if len(content) > MAX_BYTES:
        raise EvidenceRefused("size")
    for form in _FORMS:
        if content.startswith(form.start) and content.rfind(form.end) > 0:
            return form.kind
    raise EvidenceRefused("kind")


def name_of(name: str, kind: Kind) -> str:
    """Return a safe name for downloads: without a path, and with the extension of its kind."""
    endings = next(form.endings for form in _FORMS if form.kind == kind)
    base = " ".join(_UNFIT.sub(" ", _SEPARATORS.split(name)[-1]).split()).strip(". ")
    if base.lower().endswith(endings):
        stem, _, ending = base.rpartition(".")
    else:
        stem, ending = base, endings[0][1:]
    return f"{stem.strip('. ')[: _MAX_NAME - 6] or 'file'}.{ending}"
