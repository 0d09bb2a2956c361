"""Translates conditions of AgentClusterInstall, InfraEnv, Agent and BareMetalHost into sentences. Pure.

Source: the constants of assisted-service's API types (extensions.hive.openshift.io and agent-install.openshift.io, v1beta1)
and Metal3's provisioning states.
"""

from dataclasses import dataclass

from gpuaas.core.errors import Permanent
from gpuaas.providers.kubeapi.client import Object

# (condition, reason) of an AgentClusterInstall that waits, most specific first
WAITS = {
    ("SpecSynced", "InputError"): "The hub rejects the cluster's definition",
    ("SpecSynced", "BackendError"): "The hub's installation service has an internal error",
    (
        "Validated",
        "ValidationsFailing",
    ): "The machines or the network fail the checks before the installation",
    ("Validated", "ValidationsUserPending"): "The checks before the installation are waiting for a setting",
    ("RequirementsMet", "InsufficientAgents"): "Machines are missing",
    ("RequirementsMet", "UnapprovedAgents"): "Machines are waiting to be approved",
    ("RequirementsMet", "AdditionalAgents"): "There are more machines than ordered",
    ("RequirementsMet", "ClusterNotReady"): "The cluster is not ready to be installed yet",
    ("Completed", "InstallationOnHold"): "The installation is on hold at the hub",
    ("Completed", "InstallationInProgress"): "The installation is running",
    ("RequirementsMet", "ClusterAlreadyInstalling"): "The installation is running",
    ("RequirementsMet", "ClusterIsReady"): "The installation is about to start",
    ("Completed", "InstallationNotStarted"): "The installation has not started",
    ("Validated", "ValidationsUnknown"): "The checks before the installation are still running",
}
# reasons of the condition Installed of an Agent
AGENT_WAITS = {
    "InstallationInProgress": "it is being installed",
    "InstallationNotStarted": "its installation has not started",
    "InstallationFailed": "its installation has failed",
}


@dataclass(frozen=True)
class Condition:
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


def condition(found: Object | None, kind: str) -> Condition:
    for one in ((found or {}).get("status") or {}).get("conditions") or ():
        if one.get("type") == kind:
            return Condition(one.get("status", "Unknown"), one.get("reason", ""), one.get("message", ""))
    return Condition()


def install_done(found: Object) -> bool:
    return condition(found, "Completed").status == "True"


def install_begun(found: Object | None) -> bool:
    """From then on the hub accepts no changes of the definition."""
    begun = condition(found, "RequirementsMet").reason == "ClusterAlreadyInstalling"
    return (
        begun
        or condition(found, "Stopped").status == "True"
        or condition(found, "Completed").status == "True"
    )


def install_words(found: Object) -> str:
    """What the installation waits for, with the hub's own message. Raises Permanent where it has failed."""
    failed = condition(found, "Failed")
    if failed.status == "True":
        raise Permanent(
            "the installation has failed",
            detail={
                "evidence": [failed.message or failed.reason, *_debug(found)],
                "next": "Look at the events and logs that the hub names, then delete this cluster and order it again.",
            },
        )
    for (kind, reason), words in WAITS.items():
        seen = condition(found, kind)
        if seen.reason == reason:
            return f"{words}: {seen.message}" if seen.message else words
    return "The hub has not processed it yet"


def _debug(found: Object) -> list[str]:
    debug = (found.get("status") or {}).get("debugInfo") or {}
    return [f"{key}: {debug[key]}" for key in ("stateInfo", "eventsURL", "logsURL") if debug.get(key)]


def image_words(found: Object) -> str:
    """Empty once the boot image exists."""
    seen = condition(found, "ImageCreated")
    if seen.status == "True" and links(found):
        return ""
    if seen.reason == "ImageCreationError":
        raise Permanent(
            "the hub cannot create the boot image",
            detail={
                "evidence": [seen.message],
                "next": "Fix what the hub reports about the InfraEnv, then retry.",
            },
        )
    return "the hub is creating the boot image"


def links(found: Object) -> dict[str, str]:
    """Links to the ISO and the iPXE script, by kind."""
    status = found.get("status") or {}
    urls = {
        "iso": status.get("isoDownloadURL"),
        "ipxe": (status.get("bootArtifacts") or {}).get("ipxeScript"),
    }
    return {key: value for key, value in urls.items() if value}


def agent_words(agent: Object | None, *, day_one: bool) -> str:
    """Why a machine is not ready; empty where it is. day_one: its cluster is not installed yet."""
    if agent is None:
        return "it has not appeared at the hub yet"
    if condition(agent, "Connected").status == "False":
        return "the hub has lost its connection to it"
    installed = condition(agent, "Installed")
    if installed.status == "True":
        return ""
    if installed.reason == "InstallationFailed":
        return _with(AGENT_WAITS[installed.reason], installed)
    for kind, words in (
        ("SpecSynced", "the hub rejects its settings"),
        ("Validated", "it fails a check"),
    ):
        seen = condition(agent, kind)
        if seen.status == "False" and seen.reason not in {"ValidationsUnknown", ""}:
            return _with(words, seen)
    bound = condition(agent, "Bound")
    if bound.status != "True":
        return "it is being bound to the cluster"
    if day_one:
        return ""
    return _with(AGENT_WAITS.get(installed.reason, "it is not installed yet"), installed)


def _with(words: str, seen: Condition) -> str:
    return f"{words}: {seen.message}" if seen.message else words


def machine_trouble(found: Object) -> str:
    """Metal3's error message about a machine."""
    status = found.get("status") or {}
    return str(status.get("errorMessage") or "")


def machine_is_clean(found: Object) -> bool:
    """Metal3 has brought it back to an empty state; cleaning is part of that."""
    spec, status = found["spec"], found.get("status") or {}
    provisioning = status.get("provisioning") or {}
    boots = spec.get("image") or spec.get("customDeploy")
    booted = (provisioning.get("image") or {}).get("url") or provisioning.get("customDeploy")
    return (
        spec.get("automatedCleaningMode") == "metadata"
        and not boots
        and not booted
        and provisioning.get("state") in {"available", "ready"}
        and not machine_trouble(found)
    )
