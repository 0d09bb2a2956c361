"""What the hub says, in our words. Pure: conditions of AgentClusterInstall, InfraEnv, Agent and BareMetalHost.

Source: the constants of assisted-service's API types (extensions.hive.openshift.io and agent-install.openshift.io, v1beta1)
and Metal3's provisioning states.
"""

from dataclasses import dataclass

from gpuaas.core.errors import Permanent
from gpuaas.providers.kubernetes.client import Object

# (condition, reason) of an AgentClusterInstall that waits, the most telling first
WAITS = {
    ("SpecSynced", "InputError"): "The hub cannot work with what was asked for",
    ("SpecSynced", "BackendError"): "The hub's installation service has a problem of its own",
    ("Validated", "ValidationsFailing"): "Machines or network do not pass the checks before the installation",
    ("Validated", "ValidationsUserPending"): "The checks before the installation wait for a setting",
    ("RequirementsMet", "InsufficientAgents"): "Machines are still missing",
    ("RequirementsMet", "UnapprovedAgents"): "Machines are there and wait to be approved",
    ("RequirementsMet", "AdditionalAgents"): "More machines are there than were asked for",
    ("RequirementsMet", "ClusterNotReady"): "The cluster is not ready to be installed yet",
    ("Completed", "InstallationOnHold"): "Somebody holds the installation at the hub",
    ("Completed", "InstallationInProgress"): "The installation runs",
    ("RequirementsMet", "ClusterAlreadyInstalling"): "The installation runs",
    ("RequirementsMet", "ClusterIsReady"): "The installation is about to begin",
    ("Completed", "InstallationNotStarted"): "The installation has not begun",
    ("Validated", "ValidationsUnknown"): "The checks before the installation are not done yet",
}
# reasons of the condition Installed of an Agent
AGENT_WAITS = {
    "InstallationInProgress": "it is being installed",
    "InstallationNotStarted": "its installation has not begun",
    "InstallationFailed": "its installation has failed",
}


@dataclass(frozen=True)
class Said:
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


def condition(found: Object | None, kind: str) -> Said:
    for one in ((found or {}).get("status") or {}).get("conditions") or ():
        if one.get("type") == kind:
            return Said(one.get("status", "Unknown"), one.get("reason", ""), one.get("message", ""))
    return Said()


def install_done(found: Object) -> bool:
    return condition(found, "Completed").status == "True"


def install_begun(found: Object | None) -> bool:
    """From then on the hub takes no other definition."""
    begun = condition(found, "RequirementsMet").reason == "ClusterAlreadyInstalling"
    return (
        begun
        or condition(found, "Stopped").status == "True"
        or condition(found, "Completed").status == "True"
    )


def install_words(found: Object) -> str:
    """What it waits for, with what the hub itself says of it. Raises Permanent where it has failed."""
    failed = condition(found, "Failed")
    if failed.status == "True":
        raise Permanent(
            "the installation has failed",
            detail={
                "evidence": [failed.message or failed.reason, *_debug(found)],
                "next": "Look at the events and logs that the hub names, then delete this cluster and order it anew.",
            },
        )
    for (kind, reason), words in WAITS.items():
        seen = condition(found, kind)
        if seen.reason == reason:
            return f"{words}: {seen.message}" if seen.message else words
    return "The hub has not looked at it yet"


def _debug(found: Object) -> list[str]:
    debug = (found.get("status") or {}).get("debugInfo") or {}
    return [f"{key}: {debug[key]}" for key in ("stateInfo", "eventsURL", "logsURL") if debug.get(key)]


def image_words(found: Object) -> str:
    """Empty once the boot image is there."""
    seen = condition(found, "ImageCreated")
    if seen.status == "True" and links(found):
        return ""
    if seen.reason == "ImageCreationError":
        raise Permanent(
            "the hub cannot make the boot image",
            detail={
                "evidence": [seen.message],
                "next": "Mend what the hub says of the InfraEnv, then retry.",
            },
        )
    return "the hub makes the boot image"


def links(found: Object) -> dict[str, str]:
    """ISO and iPXE script, by what they are."""
    status = found.get("status") or {}
    told = {
        "iso": status.get("isoDownloadURL"),
        "ipxe": (status.get("bootArtifacts") or {}).get("ipxeScript"),
    }
    return {key: value for key, value in told.items() if value}


def agent_words(agent: Object | None, *, day_one: bool) -> str:
    """Why a machine is not where it should be; empty where it is. day_one: its cluster is not installed yet."""
    if agent is None:
        return "it has not shown up at the hub yet"
    if condition(agent, "Connected").status == "False":
        return "the hub has lost its connection to it"
    installed = condition(agent, "Installed")
    if installed.status == "True":
        return ""
    if installed.reason == "InstallationFailed":
        return _with(AGENT_WAITS[installed.reason], installed)
    for kind, words in (
        ("SpecSynced", "the hub cannot take its settings"),
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


def _with(words: str, seen: Said) -> str:
    return f"{words}: {seen.message}" if seen.message else words


def machine_trouble(found: Object) -> str:
    """What Metal3 says went wrong with a machine."""
    status = found.get("status") or {}
    return str(status.get("errorMessage") or "")


def machine_is_clean(found: Object) -> bool:
    """Metal3 has brought it back to where nothing is on it; cleaning is part of the way there."""
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
