"""Machines of workspaces at sites that sell whole machines: ordered here, created by a background visit, and listed
whoever created them."""
