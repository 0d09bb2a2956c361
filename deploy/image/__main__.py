"""`python -m deploy.image`: builds the container image of the portal, or only its wheel, or signs both; see README.md."""

import argparse
import sys
from pathlib import Path

from deploy.image import checkout, debian
from deploy.image.build import build
from deploy.image.errors import ImageError
from deploy.image.release import sign
from deploy.lab.errors import LabError

# what Kubernetes makes of the name `gpuaas`; the name in your own registry is the one to give
NAME = "docker.io/library/gpuaas"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description=__doc__)
    parser.add_argument("what", choices=["image", "wheel", "sign"], nargs="?", default="image")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the folder to write to")
    parser.add_argument(
        "--name", default=NAME, help="of the image, without its tag: registry.example.org/gpuaas"
    )
    parser.add_argument("--key", type=Path, help="what to sign with: a key of OpenSSH")
    chosen = parser.parse_args()
    if chosen.what == "sign" and chosen.key is None:
        parser.error("sign needs --key")
    try:
        if chosen.what == "sign":
            print(sign(chosen.out, chosen.key))
        elif chosen.what == "wheel":
            make_wheel(chosen.out)
        else:
            make_image(chosen.out, chosen.name)
    except (ImageError, LabError) as error:
        sys.exit(str(error))


def make_wheel(folder: Path) -> None:
    for old in folder.glob("gpuaas-*.whl"):
        old.unlink()
    print(checkout.wheel(folder))


def make_image(folder: Path, name: str) -> None:
    debian.refresh()
    built = build(folder, name=name, report=lambda words: print(f"Making {words}", flush=True))
    print(f"{built.archive}\n{built.bill}\n{built.name}@{built.digest}")


if __name__ == "__main__":
    main()
