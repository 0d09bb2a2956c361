"""Octavia's API with our worker in the same program."""

import threading

from octavia.wsgi.api import application  # noqa: F401 - served by serve.py; first: it reads the configuration

from lab_octavia import Worker  # isort: skip

threading.Thread(target=Worker().run, daemon=True).start()
