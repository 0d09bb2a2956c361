"""`python -m tests.e2e.claim`, in the environment of a portal: who works on one workspace, seen from outside its processes."""

import sys

import django


def slow(milliseconds: str) -> str:
    """Each call to a simulated site takes so long; what it took before."""
    from gpuaas.providers.sandbox.models import SandboxSite

    before = SandboxSite.objects.values_list("latency_ms", flat=True).order_by("-latency_ms").first() or 0
    SandboxSite.objects.update(latency_ms=int(milliseconds))
    return str(before)


def held(workspace: str) -> str:
    """The token of the claim, "" where nobody works on it."""
    from gpuaas.workspaces.models import Workspace

    return str(Workspace.objects.values_list("claim_token", flat=True).get(pk=workspace) or "")


def changed(words: str) -> str:
    """Waits until the claim has another token than the one given after the workspace, and says which."""
    from tests.lab.fixtures import until

    workspace, _, before = words.partition("/")

    def another() -> str:
        found = held(workspace)
        return "" if found == before else found

    return until(another, "another process took the work over")


COMMANDS = {"slow": slow, "held": held, "changed": changed}

if __name__ == "__main__":
    django.setup()
    sys.stdout.write(COMMANDS[sys.argv[1]](sys.argv[2]))
