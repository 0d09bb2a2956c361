"""Each way out of a workspace is refused by the cloud, with the member's own credential: `escapes/` is the table."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from deploy.lab.openstack import Lab
from tests.providers.openstack import escapes
from tests.providers.openstack.conftest import ref
from tests.providers.openstack.escapes import commands
from tests.providers.openstack.escapes.room import Room, driver_of, room
from tests.providers.openstack.escapes.shapes import ALICE, BOB, CHARLIE, Escape, Size, Try, spec_of
from tests.providers.openstack.escapes.tenant import Credential, credential, openstack

pytestmark = pytest.mark.openstack
SMALL = Size(count=2, gpus=1, vcpus=2, memory_gib=2)


@dataclass(frozen=True)
class Stage:
    """alice's workspace, all of it in use; and charlie's, with one of everything."""

    mine: Room
    theirs: Room
    bob: Credential
    names: dict[str, str]
    before: dict[str, object] = field(default_factory=dict)

    def state(self) -> dict[str, object]:
        """What no attempt may change, and all of them together did not."""
        seen = [self.mine.driver.observe(ref(each.spec)) for each in (self.mine, self.theirs)]
        return {
            "limits": [dict(each.hard) for each in seen],
            "held": [dict(each.used) for each in seen],
            "roles": [sorted(people_of(each)) for each in (self.mine, self.theirs)],
            "machines": [sorted((row.uid, row.phase) for row in each.consumers) for each in seen],
        }


def people_of(here: Room) -> list[tuple[str, str]]:
    """Who has which role."""
    query = {"scope.project.id": here.who.project}
    rows = here.admin.items("identity", "/role_assignments", "role_assignments", **query)
    return [(row["user"]["id"], row["role"]["id"]) for row in rows]


@pytest.fixture(scope="module")
def stage(openstack_lab: Lab) -> Iterator[Stage]:
    driver = driver_of(openstack_lab)
    one = Size(count=1, gpus=1, vcpus=1, memory_gib=1)
    mine, theirs = spec_of(SMALL, members=(ALICE, BOB)), spec_of(one, members=(CHARLIE,))
    with room(driver, mine) as here, room(driver, theirs, CHARLIE) as there:
        made = Stage(here, there, credential(driver, mine, BOB), _names(here, there))
        made.before.update(made.state())
        yield made


def _names(here: Room, there: Room) -> dict[str, str]:
    alice, charlie, admin = here.who, there.who, here.admin
    servers = [here.boot(), here.boot()]
    their_server = there.boot()
    roles = {row["name"]: row["id"] for row in admin.items("identity", "/roles", "roles")}
    limit = alice.get("identity", "/limits")["limits"][0]
    registered = alice.get("identity", "/registered_limits")["registered_limits"][0]
    their_image = charlie.call(
        "POST", "image", "/images", {"name": "theirs", "disk_format": "raw", "container_format": "bare"}
    )
    groups = there.own("network", "/security-groups", "security_groups")
    public = next(row for row in alice.get("network", "/networks")["networks"] if row["router:external"])
    return {
        "project": alice.project,
        "theirs": charlie.project,
        "me": alice.user,
        "other": charlie.user,
        "credential": alice.entry["auth"]["application_credential_id"],
        "server": servers[0],
        "their_server": their_server,
        "flavor": here.flavors["0"],
        "their_flavor": there.flavors["0"],
        "their_flavor_name": f"gpuaas-{there.spec.flavors[0].slug}",
        "image": here.image,
        "their_image": their_image.json()["id"],
        "network": here.network,
        "their_network": there.network,
        "public": public["id"],
        "port": alice.made("network", "/ports", "port", {"network_id": here.network})["id"],
        "their_port": charlie.made("network", "/ports", "port", {"network_id": there.network})["id"],
        "their_router": there.own("network", "/routers", "routers")[0]["id"],
        "their_group": groups[0]["id"],
        "limit": limit["id"],
        "their_limit": charlie.get("identity", "/limits")["limits"][0]["id"],
        "registered": registered["id"],
        "service": registered["service_id"],
        "admin": roles["admin"],
        "member": roles["member"],
    }


@pytest.mark.parametrize("escape", escapes.ALL, ids=lambda escape: escape.what)
def test_refused(stage: Stage, escape: Escape) -> None:
    answer = Try(stage.mine.who, stage.names)(escape)
    assert answer.status_code == escape.status, answer.text
    assert escape.words in answer.text


def test_a_viewer_gets_no_further(stage: Stage) -> None:
    refused = (400, 401, 403, 404, 409)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(Try(stage.bob, stage.names), escapes.ALL))
    found = {escape.what: answer.status_code for escape, answer in zip(escapes.ALL, answers, strict=True)}
    assert {what: code for what, code in found.items() if code not in refused} == {}


@pytest.mark.parametrize("escape", escapes.ORDINARY, ids=lambda escape: escape.what)
def test_what_members_may_a_viewer_may_not(stage: Stage, escape: Escape) -> None:
    answer = Try(stage.bob, stage.names)(escape)
    assert answer.status_code == 403, answer.text


COLLECTIONS = {
    "compute": ("servers", "servers/detail", "flavors/detail", "os-server-groups", "os-keypairs"),
    "network": (
        *("networks", "subnets", "ports", "routers", "security-groups", "security-group-rules"),
        *("floatingips", "rbac-policies", "subnetpools", "address-scopes"),
    ),
    "image": ("images",),
    "identity": ("limits", "auth/projects", "credentials"),
}


@pytest.mark.parametrize("query", ["", "?project_id={theirs}", "?tenant_id={theirs}", "?owner={theirs}"])
@pytest.mark.parametrize("service", COLLECTIONS)
def test_nothing_of_another_tenant_is_in_any_list(stage: Stage, service: str, query: str) -> None:
    """However it is asked for: charlie's project is named nowhere, nor is a thing of charlie's."""
    theirs = [value for name, value in stage.names.items() if name.startswith("their")]
    for path in COLLECTIONS[service]:
        answer = stage.mine.who.call("GET", service, f"/{path}{query.format(**stage.names)}")
        text = answer.text
        if answer.ok:  # what was asked for is told back in links
            found = {key: rows for key, rows in answer.json().items() if isinstance(rows, list)}
            text = json.dumps({key: rows for key, rows in found.items() if not key.endswith("links")})
        assert answer.ok or answer.status_code in (400, 403), text
        assert [each for each in theirs if answer.ok and each in text] == [], path


@pytest.mark.parametrize(
    "scope",
    [
        {"project": {"id": "{theirs}"}},
        {"project": {"name": "admin", "domain": {"id": "default"}}},
        {"system": {"all": True}},
        {"domain": {"id": "default"}},
    ],
    ids=["another project", "the administrator's project", "the system", "the domain"],
)
def test_the_credential_opens_nothing_but_its_project(stage: Stage, scope: dict[str, object]) -> None:
    wanted = json.loads(json.dumps(scope).replace("{theirs}", stage.names["theirs"]))
    alice = stage.mine.who
    assert alice.sign_in(**wanted).status_code == 401
    again = {"methods": ["token"], "token": {"id": alice.token}}
    for change in ({"scope": wanted}, {}):
        answer = alice.call("POST", "identity", "/auth/tokens", {"auth": {"identity": again, **change}})
        assert answer.status_code == 403, answer.text


@pytest.fixture(scope="module")
def answers(stage: Stage) -> dict[str, tuple[int, str]]:
    """What the plain client says to each command; one process for all, for it takes seconds to start."""
    lines = [[word.format(**stage.names) for word in words.split()] for words, _ in commands.ALL.values()]
    return dict(zip(commands.ALL, openstack(stage.mine.who, lines), strict=True))


@pytest.mark.parametrize("what", commands.ALL)
def test_refused_by_the_plain_client(answers: dict[str, tuple[int, str]], what: str) -> None:
    code, said = answers[what]
    assert code, said
    assert commands.ALL[what][1] in said


def test_the_plain_client_sees_what_was_bought_and_no_machine_of_others(stage: Stage) -> None:
    lines = [[kind, "list", "-f", "value", "-c", "ID"] for kind in ("flavor", "server")]
    (_, flavors), (_, servers) = openstack(stage.mine.who, lines)
    assert flavors.split() == [stage.names["flavor"]]
    assert set(servers.split()) == {row["id"] for row in stage.mine.servers()}


def test_the_table_is_long_enough_and_its_sentences_differ() -> None:
    names = [escape.what for escape in escapes.ALL]
    assert len(names) == len(set(names))
    assert len(names) >= 100


def test_after_all_of_it_nothing_has_changed(stage: Stage) -> None:
    """The last of this file; and all that was bought was in use, else one machine more would have been no escape."""
    assert stage.state() == stage.before
    assert stage.mine.held() == stage.mine.bought() == len(stage.mine.servers()) == 2
