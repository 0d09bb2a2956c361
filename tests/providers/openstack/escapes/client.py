"""The plain command-line client, once for each line of words on the standard input: its exit status and what it says."""

import contextlib
import io
import json
import sys

from openstackclient.shell import main

for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status: object = main(json.loads(line))
        except SystemExit as end:
            status = end.code
    sys.stdout.write(json.dumps([status, said.getvalue()]) + "\n")
