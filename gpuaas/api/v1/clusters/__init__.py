"""Clusters on demand, their templates and hosts."""
