"""Serve one OpenStack API: serve.py MODULE PORT [OPTION…]. The modules read sys.argv when they are imported."""

import importlib
import logging
import sys

import waitress

module, port = sys.argv[1], int(sys.argv[2])
sys.argv = [module, *sys.argv[3:]]
logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # else one line for every request that waits
waitress.serve(
    importlib.import_module(module).application,
    host="127.0.0.1",
    port=port,
    threads=16,
    connection_limit=500,
    channel_timeout=300,
    clear_untrusted_proxy_headers=True,
)
