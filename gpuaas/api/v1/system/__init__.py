"""The state of the portal itself."""
