"""Cinder's scheduler and its volume service, as two workers of one program: what both import is there once."""

import sys

from cinder.cmd import volume  # noqa: F401 - first: it decides between threads and greenlets

from cinder import objects, service, version  # isort: skip
from cinder.common import config, constants  # noqa: F401 - config: it registers the options
from cinder.db import api as database
from oslo_config import cfg
from oslo_log import log

CONF = cfg.CONF
BACKEND = "lab"


def main():
    objects.register_all()
    CONF(sys.argv[1:], project="cinder", version=version.version_string())
    log.setup(CONF, "cinder")
    launcher = service.process_launcher()
    volumes = {"host": f"{CONF.host}@{BACKEND}", "service_name": BACKEND, "coordination": True}
    for binary, more in {constants.SCHEDULER_BINARY: {}, constants.VOLUME_BINARY: volumes}.items():
        made = service.Service.create(binary=binary, **more)
        database.dispose_engine()  # a worker must not share its connections
        launcher.launch_service(made)
    launcher.wait()


if __name__ == "__main__":
    main()
