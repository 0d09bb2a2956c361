"""nova-compute, which looks for drivers only below nova.virt: so this folder is put there."""

import sys
from pathlib import Path

from nova.cmd import compute  # first: it decides between threads and greenlets

import nova.virt  # isort: skip

nova.virt.__path__.append(str(Path(__file__).parent))

if __name__ == "__main__":
    sys.argv[0] = "nova-compute"
    sys.exit(compute.main())
