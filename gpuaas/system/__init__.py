"""Whether the portal itself works: health addresses and metrics."""
