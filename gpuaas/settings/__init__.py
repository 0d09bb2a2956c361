"""Settings by concern: base, production, demo, test."""
