"""Django's PostgreSQL back end on the embedded server of the suite, which the first connection starts: a test that reads
no table needs no server."""
