"""Limits and reserved pools."""
