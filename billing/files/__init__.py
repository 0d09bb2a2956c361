"""Rating of files, for audits, migrations and what-if: usage and rates as CSV in, invoice lines as CSV out."""

from billing.files.rate import Refused, files_rate
from billing.files.rows import BadRow

__all__ = ["BadRow", "Refused", "files_rate"]
