"""Pages of scaling by policy without a browser: what a form posts, what it is refused, what a trial and the log say."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client

from billing.policies import policy_allowance
from billing.services import rate_set
from gpuaas.catalog.models import Site
from gpuaas.clusters.models import Cluster, ScalingPolicy
from gpuaas.clusters.reconcile.policies import policy_run
from gpuaas.core.clock import now
from gpuaas.metering.models import Meter
from tenants.actors import SYSTEM, Actor
from tenants.models import Project, User
from tests.clusters.policy_stage import demand, recorded, scaled_by
from tests.clusters.stage import offered, ready
from tests.frontend.markup import words
from tests.frontend.pages.conftest import signed_in
from tests.lasting import lasting

pytestmark = pytest.mark.django_db
POSTED = {
    "do": "save",
    "kind": "pending",
    "pool": "gpu",
    "settings.spare_workers": "0",
    "minimum": "1",
    "maximum": "4",
    "step": "4",
    "up_delay": "0",
    "down_delay": "600",
    "cool_down": "0",
    "gpu_hours_month": "",
    "money_month": "250.00",
    "enabled": "on",
}


@pytest.fixture
@lasting
def cluster(as_olga: Actor, as_alice: Actor, project: Project, site: Site) -> Cluster:
    offered(as_olga, site)
    return ready(as_alice, project)


@pytest.fixture
def home(cluster: Cluster) -> str:
    return f"/p/weather-lm/clusters/{cluster.pk}/policies/"


def test_a_policy_is_added_changed_switched_and_removed(alice_at: Client, home: str) -> None:
    empty = words(alice_at.get(home))
    assert "No decisions yet" in empty
    assert "Manual" in empty
    assert 'value="1"' in words(alice_at.get(f"{home}new/?pool=gpu")), "the template's least"
    assert alice_at.post(f"{home}new/", POSTED)["Location"] == home
    policy = ScalingPolicy.objects.get()
    assert (policy.maximum, policy.enabled, policy.settings) == (4, True, {"spare_workers": 0})
    assert "€250.00" in words(alice_at.get(home))

    mine = f"{home}{policy.pk}/"
    shown = words(alice_at.get(mine))
    assert 'value="250.00"' in shown
    changed = {**POSTED, "kind": "use", "settings.target_percent": "70", "version": "1"}
    assert alice_at.post(mine, changed).status_code == 302
    policy.refresh_from_db()
    assert (policy.kind, policy.settings) == ("use", {"target_percent": 70})
    stale = alice_at.post(mine, changed)
    assert stale.status_code == 422
    assert "has changed since you read it" in words(stale)
    assert "Read it again</a>" in words(stale)
    alice_at.post(f"{mine}switch/", {})
    policy.refresh_from_db()
    assert not policy.enabled
    asked = words(alice_at.get(mine))
    dialog = asked[asked.index('id="enable-policy"') :]
    assert "Between 1 and 4 workers" in dialog
    assert "At the most" in dialog, "what the cluster costs per hour with all of them"
    alice_at.post(f"{mine}switch/", {"enabled": "yes"})
    assert ScalingPolicy.objects.get().enabled
    alice_at.post(f"{mine}delete/")
    assert not ScalingPolicy.objects.exists()


def test_what_is_typed_shows_what_the_pool_may_come_to(alice_at: Client, home: str, cluster: Cluster) -> None:
    asked = words(alice_at.get(f"{home}new/?pool=gpu"))
    assert f'hx-post="{home}effect/"' in asked
    flavor = cluster.pools.get(name="gpu").flavor
    rate_set(
        actor=SYSTEM, flavor=flavor, meter=Meter.GPU_HELD, price="2.40", valid_from=now() - timedelta(days=1)
    )
    most = words(alice_at.post(f"{home}effect/", POSTED))
    assert "Between 1 and 4 workers" in most
    assert "Cluster per hour now" in most
    less = words(alice_at.post(f"{home}effect/", {**POSTED, "maximum": "2"}))
    assert "Between 1 and 2 workers" in less
    assert cost_of(less) < cost_of(most)
    for wrong in ({"maximum": ""}, {"maximum": "x"}, {"maximum": "0"}, {"pool": "none"}, {"minimum": "9"}):
        assert "Check your input" in words(alice_at.post(f"{home}effect/", {**POSTED, **wrong})), wrong
    assert "A whole number from 1 to 8." in words(
        alice_at.post(f"{home}effect/", {**POSTED, "maximum": "1000000"})
    )
    assert not ScalingPolicy.objects.exists()


def cost_of(effect: str) -> Decimal:
    """Per hour with as many workers as the policy may add."""
    (found,) = re.findall(r"€([0-9.,]+)", effect[effect.index("At the most") :])[:1]
    return Decimal(found.replace(",", ""))


@pytest.mark.parametrize("which", ["new/", "mine"])
def test_what_is_answered_while_it_is_filled_in_has_a_place(alice_at: Client, home: str, which: str) -> None:
    alice_at.post(f"{home}new/", POSTED)
    policy = ScalingPolicy.objects.get()
    url = f"{home}new/?pool=spare" if which == "new/" else f"{home}{policy.pk}/"
    page = alice_at.get(url).content.decode()
    sent = {**POSTED, "maximum": "nonsense", "version": "1"}
    answer = alice_at.post(f"{home}new/?check" if which == "new/" else f"{url}?check", sent).content.decode()
    targets = re.findall(r'id="([^"]+)"[^>]* hx-swap-oob', answer)
    assert "id_maximum-help" in targets
    assert [target for target in targets if f'id="{target}"' not in page] == []


def test_demand_may_have_a_floor_by_hours(alice_at: Client, home: str) -> None:
    floor = {
        "settings.hours": "Mon-Fri 08:00-18:00 2\nSat 10:00-12:00 1",
        "settings.time_zone": "Europe/Berlin",
    }
    assert alice_at.post(f"{home}new/", {**POSTED, **floor})["Location"] == home
    policy = ScalingPolicy.objects.get()
    lines = ["Mon-Fri 08:00-18:00 2", "Sat 10:00-12:00 1"]
    assert policy.settings == {"spare_workers": 0, "hours": lines, "time_zone": "Europe/Berlin"}
    shown = words(alice_at.get(f"{home}{policy.pk}/"))
    assert "At least, by hours" in shown
    assert "Sat 10:00-12:00 1" in shown


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"maximum": "9"}, "A whole number from 1 to 8."),
        ({"maximum": "two"}, "Enter a whole number."),
        ({"settings.spare_workers": "-1"}, "A whole number of at least 0."),
        ({"settings.spare_workers": "x"}, "A whole number."),
        ({"settings.hours": "Mon-Fri 08:00-18:00 2"}, "The hours need a time zone"),
        ({"money_month": "0"}, "An amount above 0"),
        ({"pool": "none"}, "Choose one of the list"),
        (
            {"kind": "schedule", "settings.hours": "Mon 8-9 1", "settings.time_zone": "UTC"},
            "Text that matches",
        ),
    ],
)
def test_what_is_wrong_is_said_beside_it(
    alice_at: Client, home: str, changes: dict[str, str], said: str
) -> None:
    for does in ("save", "try"):
        answer = alice_at.post(f"{home}new/", {**POSTED, **changes, "do": does})
        assert answer.status_code == 422
        assert said in words(answer)
    assert not ScalingPolicy.objects.exists()


def test_it_is_tried_before_it_is_saved(
    alice_at: Client, as_alice: Actor, home: str, cluster: Cluster
) -> None:
    nothing = words(alice_at.post(f"{home}new/", {**POSTED, "do": "try"}))
    assert "No data recorded yet" in nothing
    assert not ScalingPolicy.objects.exists()
    policy = scaled_by(as_alice, cluster, enabled=False)
    recorded(policy, [1] * 60 + [7] * 60)
    tried = alice_at.post(f"{home}{policy.pk}/", {**POSTED, "do": "try"})
    page = words(tried)
    assert tried.status_code == 200
    assert "Workers and pending GPUs" in page
    assert "actual: 1 h" in page
    assert "10 min" in page
    policy.refresh_from_db()
    assert policy.version == 1, "nothing was changed"


def test_the_log_is_filtered(
    alice_at: Client, as_alice: Actor, home: str, cluster: Cluster, site: Site
) -> None:
    policy = scaled_by(as_alice, cluster)
    demand(site, cluster, 6)
    ScalingPolicy.objects.update(due_at=now())
    policy_run(policy.pk, purse=policy_allowance)
    assert "1 → 3" in words(alice_at.get(home))
    assert "1 → 3" in words(alice_at.get(f"{home}?pool=gpu&outcome=scaled"))
    assert "No decisions match" in words(alice_at.get(f"{home}?outcome=refused"))
    assert "1 → 3" in words(alice_at.get(f"{home}?outcome=nonsense"))


def test_who_may_only_look_gets_no_buttons(
    as_alice: Actor, bob: User, home: str, cluster: Cluster, project: Project
) -> None:
    project.memberships.filter(user=bob).update(role="viewer")
    policy = scaled_by(as_alice, cluster)
    at = signed_in(bob)
    assert "Add policy" not in words(at.get(home))
    page = words(at.get(f"{home}{policy.pk}/"))
    assert "Remove" not in page
    assert 'name="do"' not in page
    assert page.count(" disabled") >= 8
    for place in ("new/", "effect/", f"{policy.pk}/", f"{policy.pk}/switch/", f"{policy.pk}/delete/"):
        assert at.post(f"{home}{place}", POSTED).status_code == 403
    assert ScalingPolicy.objects.get().enabled
