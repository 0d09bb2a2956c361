"""Usage and rates as CSV files: rated without the database (invoice lines as CSV), or usage imported into the
portal."""

from billing.files.rate import Refused, files_rate
from billing.files.rows import BadRow
from billing.files.take import (
    file_name,
    files_import,
    import_take_back,
    invoices_of,
    take_back_obstacle,
    usage_file,
)

__all__ = [
    "BadRow",
    "Refused",
    "file_name",
    "files_import",
    "files_rate",
    "import_take_back",
    "invoices_of",
    "take_back_obstacle",
    "usage_file",
]
