"""FOCUS 1.2: the charges of a month in the standard format of cost management tools; CSV or Parquet."""

from billing.focus.charges import charges_of
from billing.focus.export import focus_csv, focus_parquet
from billing.focus.records import COLUMNS, focus_rows

__all__ = ["COLUMNS", "charges_of", "focus_csv", "focus_parquet", "focus_rows"]
