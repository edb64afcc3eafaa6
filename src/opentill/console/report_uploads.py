"""Reports of banks and gateways that staff upload."""

from opentill.core.errors import PayloadTooLarge
from opentill.portal.request import PageRequest
from opentill.web.forms import Upload
from opentill.web.translations import N_


class ReportRefused(Exception):
    """An uploaded report is missing or too large. The page shows ``error``."""

    def __init__(self, status: int, error: str) -> None:
        """``status`` is the HTTP status of the page."""
        super().__init__(error)
        self.status, self.error = status, error


async def read_report(request: PageRequest, field: str) -> Upload:
    """Return the file in a field of the form. Raises ReportRefused."""
    try:
        files = await request.files()
    except PayloadTooLarge:
        error = N_("Choose a file of at most 2 MB, or use the command line.")
        raise ReportRefused(413, error) from None
    file = files.get(field)
    if file is None or not file.content:
        raise ReportRefused(400, N_("Choose a file."))
    return file
