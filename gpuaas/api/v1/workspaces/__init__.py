"""Workspaces, their machines, and access to them."""
