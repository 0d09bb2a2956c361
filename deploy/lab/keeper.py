"""`python -m deploy.lab.keeper OWNER`: waits for the end of the run of that owner, whatever ends it, and takes away what it has left.

`owners.own` starts it, in a session of its own, so that Ctrl-C does not reach it.
"""

import os
import select
import signal
import sys

from deploy.lab.holds import is_over
from deploy.lab.owners import orphans_end


def main(owner: str) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wait(owner)
    orphans_end()


def wait(owner: str) -> None:
    try:
        process = os.pidfd_open(int(owner.partition("@")[0]))
    except ProcessLookupError:
        return
    ended = select.poll()
    ended.register(process, select.POLLIN)
    while not is_over(owner):  # a number that is somebody else's by now is not waited for
        ended.poll()
    os.close(process)


if __name__ == "__main__":
    main(sys.argv[1])
