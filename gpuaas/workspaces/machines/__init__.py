"""Machines of workspaces at sites that sell them whole: ordered here, made by a background visit, seen whoever made them."""
