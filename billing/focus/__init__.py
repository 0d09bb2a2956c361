"""FOCUS 1.2: what was charged, as every tool of cost management reads it; CSV or Parquet, of one month."""

from billing.focus.charges import charges_of
from billing.focus.export import focus_csv, focus_parquet
from billing.focus.records import COLUMNS, focus_rows

__all__ = ["COLUMNS", "charges_of", "focus_csv", "focus_parquet", "focus_rows"]
