"""`python -m deploy.demo up`, `dev`, `reset` or `lab`: the demo, which Ctrl-C ends with a sentence from its first moment on.

Only what takes no time is imported before that is so.
"""

import sys


def main() -> int:
    try:
        from deploy.embedded import demo

        return demo.main()
    except KeyboardInterrupt:
        print("Stopped.")
        return 0


if __name__ == "__main__":
    sys.exit(main())
