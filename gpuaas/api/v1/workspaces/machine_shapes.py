"""The shapes of machines and keys."""

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gpuaas.api.fields import Input, Output, PageQuery, Pick, Text, TextOrEmpty, Whole
from gpuaas.providers.base import MachineVerb
from gpuaas.workspaces.machines.models import Machine
from gpuaas.workspaces.machines.selectors import verbs_now
from gpuaas.workspaces.machines.states import MachineState

VERBS = [(verb.value, verb.value) for verb in MachineVerb if verb is not MachineVerb.DELETE]


class MachineQuery(PageQuery):
    state = serializers.ChoiceField(choices=MachineState.choices, required=False)
    search = Text(required=False, max_length=40, help_text="Part of the name.")


class MachineInput(Input):
    name = Text(max_length=40, help_text="Lower-case letters, digits and hyphens; unique in the workspace.")
    flavor = Text(max_length=64, help_text="A flavor that the workspace has bought.")
    image = Text(max_length=255, help_text="Id of an image, or its name if only one has it.")
    key = TextOrEmpty(max_length=40, help_text="Name of one of your keys.")
    public_key = TextOrEmpty(max_length=16_384, help_text="Instead of `key`: one line as in a .pub file.")
    cloud_init = TextOrEmpty(
        max_length=49_000,
        trim_whitespace=False,
        help_text="Starts with #cloud-config or #!. Stored encrypted until the site has it, then deleted.",
    )
    volume_gib = Whole(
        required=False,
        default=0,
        max_value=1_000_000,
        help_text="Size of a volume in addition to the disk; 0: none.",
    )


class MachineActionInput(Input):
    verb = Pick(choices=VERBS)
    image = TextOrEmpty(max_length=255, help_text="Image for a rebuild. Default: its present image.")


class ConsoleInput(Input):
    pass


class ConsoleOutput(Output):
    url = serializers.CharField()
    expires_at = serializers.DateTimeField()


class MachineOutput(Output):
    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=MachineState.choices)
    said = serializers.SerializerMethodField(help_text="State as the site names it.")
    failure = serializers.CharField(allow_blank=True, help_text="Why the order or the last action failed.")
    verb = serializers.ChoiceField(
        choices=[(verb.value, verb.value) for verb in MachineVerb],
        allow_blank=True,
        help_text="The running action.",
    )
    actions = serializers.SerializerMethodField(help_text="Actions that its state allows now.")
    flavor = serializers.CharField(source="flavor_slug", allow_blank=True)
    gpus = serializers.SerializerMethodField(help_text="Number by the site's name of the GPU.")
    image = serializers.SerializerMethodField(help_text="Name of the image.")
    key = serializers.CharField(source="key_name", allow_blank=True)
    addresses = serializers.SerializerMethodField()
    power = serializers.SerializerMethodField()
    volume_gib = serializers.IntegerField()
    made_elsewhere = serializers.BooleanField(
        source="behind", help_text="Created with the tenant's own client."
    )
    external_id = serializers.CharField(source="uid", allow_blank=True, help_text="Name at the site.")
    ordered_by = serializers.CharField(allow_blank=True)
    created_at = serializers.DateTimeField()
    launched_at = serializers.SerializerMethodField()
    deleted_at = serializers.DateTimeField(allow_null=True)
    version = serializers.IntegerField()

    def get_said(self, row: Machine) -> str:
        return str(row.observed.get("site_status", ""))

    def get_actions(self, row: Machine) -> list[str]:
        return [verb.value for verb in verbs_now(row)]

    def get_gpus(self, row: Machine) -> dict[str, int]:
        found: dict[str, int] = row.observed.get("gpus", {})
        return found

    def get_image(self, row: Machine) -> str:
        return str(row.observed.get("image") or row.image_name)

    def get_addresses(self, row: Machine) -> list[str]:
        found: list[str] = row.observed.get("addresses", [])
        return found

    def get_power(self, row: Machine) -> str:
        return str(row.observed.get("power", ""))

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_launched_at(self, row: Machine) -> str | None:
        found = row.observed.get("launched_at")
        return str(found).replace("+00:00", "Z") if found else None


class MachineFlavorOutput(Output):
    flavor = serializers.CharField(source="flavor.slug")
    name = serializers.CharField(source="flavor.name")
    gpu_type = serializers.CharField(source="flavor.pool.gpu_type.slug")
    gpus = serializers.IntegerField(source="flavor.gpus", help_text="Of one machine.")
    vcpus = serializers.IntegerField(source="flavor.vcpus")
    memory_gib = serializers.IntegerField(source="flavor.memory_gib")
    disk_gib = serializers.IntegerField(source="flavor.disk_gib")
    bought = serializers.IntegerField(
        help_text="Number of machines of this flavor that the workspace has bought."
    )
    held = serializers.IntegerField(
        help_text="Number of existing machines, stopped and shelved ones included."
    )
    left = serializers.IntegerField(help_text="Number of machines left of what was bought.")
    fits = serializers.IntegerField(
        help_text=(
            "Number that fits now: at most `left`, and as many as hosts had free GPUs for when the site "
            "was last checked."
        )
    )
    unallocated_gpus = serializers.IntegerField(
        source="flavor.pool.unallocated",
        help_text="GPUs on all hosts of the site that no machine uses now, held or not.",
    )
    largest_block = serializers.IntegerField(
        source="flavor.pool.largest_block",
        help_text="Most unallocated GPUs on one host; all GPUs of a machine are on one host.",
    )
    reason = serializers.CharField(
        source="full", allow_blank=True, help_text="Why none fits now, and what to do; otherwise empty."
    )


class MachineImageOutput(Output):
    id = serializers.CharField()
    name = serializers.CharField()
    disk_gib = serializers.IntegerField(help_text="Minimum disk; 0: the site does not report it.")
    memory_gib = serializers.IntegerField()


class BelongingOutput(Output):
    kind = serializers.CharField()
    id = serializers.CharField(source="uid")
    name = serializers.CharField()
    detail = serializers.CharField(allow_blank=True)


class KeyInput(Input):
    name = Text(max_length=40, help_text="Lower-case letters, digits and hyphens.")
    public_key = Text(max_length=16_384, help_text="One line as in a .pub file; never a private key.")


class KeyOutput(Output):
    name = serializers.CharField()
    public_key = serializers.CharField()
    fingerprint = serializers.CharField()
    created_at = serializers.DateTimeField()
