"""Organizations, projects and people."""
