"""What adopting a namespace would create, change and keep, and what blocks it. Only `adopt` writes.

Plans are compared, so they must differ only in what matters: pods that fit into what is bought are one step `keep`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gpuaas.core.errors import NotFound, Permanent
from gpuaas.providers.base import AdoptionStep, StepOutcome, WorkspaceSpec
from gpuaas.providers.base.changes import blocking_check
from gpuaas.providers.kubeapi import managed_objects, manifests, names, namespaces, served, training
from gpuaas.providers.kubeapi.client import Api, Object
from gpuaas.providers.kubeapi.guards import ceiling, device_classes
from gpuaas.providers.kubernetes.adoption.find import is_live, is_sites_own, is_sites_pod
from gpuaas.providers.kubernetes.adoption.rights import foreign_rights
from gpuaas.providers.kubernetes.adoption.settings import forbidden, hidden_variables
from gpuaas.providers.kubernetes.adoption.use import Use

ENFORCE = "pod-security.kubernetes.io/enforce"
WORKLOADS = (
    ("Deployment", "/apis/apps/v1/{}/deployments"),
    ("StatefulSet", "/apis/apps/v1/{}/statefulsets"),
    ("DaemonSet", "/apis/apps/v1/{}/daemonsets"),
    ("Job", "/apis/batch/v1/{}/jobs"),
    ("CronJob", "/apis/batch/v1/{}/cronjobs"),
    ("PersistentVolumeClaim", "/api/v1/{}/persistentvolumeclaims"),
    ("Service", "/api/v1/{}/services"),
)


@dataclass(frozen=True)
class Plan:
    api: Api
    spec: WorkspaceSpec
    openings: manifests.Openings = manifests.NOTHING_OPEN
    sites_own: tuple[str, ...] = ()

    def steps(self) -> tuple[AdoptionStep, ...]:
        found = self.namespace()
        return (
            *self._namespace(found),
            *self._ours(),
            *self._in_the_way(found),
            *Use(self.api, self.spec.external_name, self._pods).beyond(self._hard, self._quota),
            *self._settings(),
            *foreign_rights(self.api, self.spec.external_name),
            *self._kept(),
        )

    def namespace(self) -> Object:
        """Raises NotFound, or Permanent for one that can never be adopted."""
        name = self.spec.external_name
        found = self.api.find(namespaces.path(name))
        if found is None:
            raise NotFound(f"the site has no namespace {name}")
        owner = (found["metadata"].get("labels") or {}).get(names.WORKSPACE)
        if owner and owner != str(self.spec.id):
            raise Permanent(f"the namespace {name} belongs to another workspace ({owner})")
        if names.is_workspace_namespace(name) or is_sites_own(self.api, name, self.sites_own):
            raise Permanent(f"the namespace {name} belongs to the site itself or to the portal")
        if namespaces.is_terminating(found):
            raise Permanent(f"the namespace {name} is being deleted")
        return found

    @property
    def _quota(self) -> str:
        return f"ResourceQuota/{names.QUOTA}"

    @cached_property
    def _wanted(self) -> tuple[managed_objects.ManagedObjects, ...]:
        openings = self.openings.without(training.unserved(served.group_versions(self.api)))
        return managed_objects.everything(self.spec, device_classes(self.api), openings)

    @cached_property
    def _hard(self) -> dict[str, str]:
        quotas = next(each for each in self._wanted if each.kind == "ResourceQuota")
        hard: dict[str, str] = quotas.objects[0]["spec"]["hard"]
        return hard

    @cached_property
    def _pods(self) -> tuple[Object, ...]:
        return tuple(filter(is_live, self._listed("/api/v1/{}/pods")))

    def _listed(self, collection: str) -> list[Object]:
        return self.api.items_if_known(collection.format(f"namespaces/{self.spec.external_name}"))

    def _namespace(self, found: Object) -> Iterator[AdoptionStep]:
        metadata, wanted = found["metadata"], manifests.namespace(self.spec)["metadata"]
        name = f"Namespace/{self.spec.external_name}"
        yield AdoptionStep(name, "change", f"becomes this workspace's (uid {metadata['uid']})")
        for kind in ("labels", "annotations"):
            present = metadata.get(kind) or {}
            for key, value in sorted(wanted[kind].items()):
                if key in present and present[key] != value:
                    detail = f"{kind[:-1]} {key}: {value or 'nothing'} instead of {present[key]}"
                    yield AdoptionStep(name, "change", detail)
        yield AdoptionStep(
            name, "keep", "deleting the workspace later deletes this namespace and everything in it"
        )

    def _ours(self) -> Iterator[AdoptionStep]:
        """What `ensure` writes. An existing object with one of our names blocks until it is deleted."""
        for wanted in self._wanted:
            present = {item["metadata"]["name"] for item in self.api.items(wanted.collection)}
            for body in wanted.objects:
                name = body["metadata"]["name"]
                if name in present:
                    detail = "uses a name that the portal needs: delete it"
                    yield AdoptionStep(f"{wanted.kind}/{name}", "remove", detail, blocking=True)
                else:
                    yield AdoptionStep(f"{wanted.kind}/{name}", "create", _in_words(wanted.kind, body))
        if not self.spec.members:
            yield AdoptionStep(
                "RoleBinding", "keep", "nobody has access: the project has no admin and no member is named"
            )

    def _in_the_way(self, found: Object) -> Iterator[AdoptionStep]:
        name = f"Namespace/{self.spec.external_name}"
        finalizers = [*(found["metadata"].get("finalizers") or []), *(found["spec"].get("finalizers") or [])]
        for finalizer in finalizers:
            if finalizer != "kubernetes":
                detail = f"the finalizer {finalizer} would block its deletion: remove it"
                yield AdoptionStep(name, "change", detail, blocking=True)
        for quota in self._foreign("/api/v1/{}/resourcequotas"):
            hard = ", ".join(
                f"{key}={value}" for key, value in sorted((quota["spec"].get("hard") or {}).items())
            )
            detail = (
                f"with a second quota concurrent pods can exceed both; it sets {hard or 'nothing'}: delete it"
            )
            yield AdoptionStep(f"ResourceQuota/{quota['metadata']['name']}", "remove", detail, blocking=True)
        for limits in self._foreign("/api/v1/{}/limitranges"):
            detail = "its defaults would conflict with the portal's: delete it"
            yield AdoptionStep(f"LimitRange/{limits['metadata']['name']}", "remove", detail, blocking=True)
        for policy in self._foreign("/apis/networking.k8s.io/v1/{}/networkpolicies"):
            yield _network(policy)

    def _foreign(self, collection: str) -> list[Object]:
        """Without those whose names the portal needs, which `_ours` reports."""
        ours = {(each.collection, name) for each in self._wanted for name in each.names}
        path = collection.format(f"namespaces/{self.spec.external_name}")
        return [each for each in self._listed(collection) if (path, each["metadata"]["name"]) not in ours]

    def _settings(self) -> Iterator[AdoptionStep]:
        nodes = {node["metadata"]["name"]: node for node in self.api.items("/api/v1/nodes")}
        most, schedulers = ceiling(self.api), self.openings.schedulers or ()
        for pod in self._pods:
            name = f"Pod/{pod['metadata']['name']}"
            if is_sites_pod(pod):
                raise Permanent(
                    f"the namespace {self.spec.external_name} contains components of the site ({name})"
                )
            for words in forbidden(pod, self.spec, nodes, ceiling=most, schedulers=schedulers):
                yield AdoptionStep(
                    name, "remove", f"{words}: stop it and start it again without that", blocking=True
                )
        for name, words in hidden_variables(self.api, self.spec.external_name):
            yield AdoptionStep(name, "change", words, blocking=True)
        level = {"metadata": {"labels": {ENFORCE: "baseline"}}}
        for warning in self.api.warnings(namespaces.path(self.spec.external_name), level):
            if "existing pods" not in warning:
                name, _, words = warning.partition(": ")
                detail = f"Pod Security baseline forbids it: {words}; stop it and start it again without that"
                yield AdoptionStep(f"Pod/{name}", "remove", detail, blocking=True)

    def _kept(self) -> Iterator[AdoptionStep]:
        if self._pods:
            yield AdoptionStep(
                "Pods", "keep", f"{len(self._pods)} keep running, and are metered from then on"
            )
        for kind, collection in WORKLOADS:
            for each in self._listed(collection):
                yield AdoptionStep(f"{kind}/{each['metadata']['name']}", "keep", "")


def adopt(plan: Plan) -> StepOutcome:
    """Label the namespace, at the version that was checked: if it changed since, the next try checks again."""
    found = plan.namespace()
    if not namespaces.is_ours(found, plan.spec.id):
        blocking_check(plan.steps())
        body = manifests.namespace(plan.spec)
        version = {"uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
        plan.api.apply(namespaces.COLLECTION, {**body, "metadata": {**body["metadata"], **version}})
    return StepOutcome(done=True, detail=f"the namespace {plan.spec.external_name} is this workspace's")


def _in_words(kind: str, body: Object) -> str:
    if kind == "ResourceQuota":
        return ", ".join(f"{key}={value}" for key, value in sorted(body["spec"]["hard"].items()))
    if kind == "NetworkPolicy" and "ingress" not in body["spec"] and "egress" not in body["spec"]:
        return "denies all traffic that the other policies do not allow: connections to the outside are cut"
    if kind == "RoleBinding":
        return f"{body['metadata']['labels'][names.ROLE]} for {body['subjects'][0]['name']}"
    return ""


def _network(policy: Object) -> AdoptionStep:
    name, spec = f"NetworkPolicy/{policy['metadata']['name']}", policy["spec"]
    rules: Iterable[Object] = [*(spec.get("ingress") or []), *(spec.get("egress") or [])]
    peers = [peer for rule in rules for peer in rule.get("from") or rule.get("to") or [{}]]
    if any(peer.keys() != {"podSelector"} for peer in peers):
        return AdoptionStep(
            name, "remove", "allows traffic from or to other namespaces: delete it", blocking=True
        )
    return AdoptionStep(name, "keep", "allows traffic within this namespace only")
