"""Declares the OpenStack driver."""

from gpuaas.providers.base import DriverKind, Nouns
from gpuaas.providers.fields import choice, document, number, secret, section, text, texts

CREDENTIALS = section(
    clouds_yaml=document("clouds.yaml", "for an admin account; it must not refer to files"),
    cloud=text("Cloud", "the cloud in clouds.yaml, if it names several", maxLength=100),
    auth_url=text(
        "Keystone URL",
        "https://…:5000/v3; with the id and secret below instead of a clouds.yaml",
        maxLength=300,
    ),
    application_credential_id=text("Application credential ID", maxLength=64),
    application_credential_secret=secret("Application credential secret", maxLength=255),
    region_name=text("Region", "needed if the cloud has several; each is a site of its own", maxLength=255),
)
OPTIONS = section(
    domain=text(
        "Domain",
        "ID of the domain of projects and users; default if empty; it cannot change once the site is attached",
        maxLength=64,
    ),
    external_network=text("External network", "its name; routers of workspaces connect to it", maxLength=255),
    aliases={
        "type": "object",
        "title": "Aliases",
        "description": "CLASS = alias, one per line; guessed from the cloud's flavors if empty",
        "additionalProperties": {"type": "string", "maxLength": 255},
    },
    gpu_classes={
        "type": "object",
        "title": "GPU classes",
        "description": "for resource classes of your own names: CLASS = model, one per line, as H100, or L40S/4 for a quarter of "
        "a card; none for what is no GPU",
        "additionalProperties": {"type": "string", "maxLength": 110},
    },
    surplus_machines=choice(
        "Surplus machines",
        "what happens to machines beyond what was bought; they are shelved by default",
        shelve="Shelve the newest and keep its disk",
        delete="Delete the newest",
    ),
    history_days=number(
        "Retention of deleted machines in Nova",
        "days that the meter can look back; 30 if empty",
        least=1,
        most=3650,
    ),
    token_cache_seconds=number(
        "Token cache time",
        "seconds, as in [keystone_authtoken] token_cache_time; access counts as ended after it",
        least=0,
        most=3600,
    ),
    sites_projects=texts("The site's own projects", "names, one per line; * matches anything; never adopted"),
)

KINDS = (
    DriverKind(
        name="openstack",
        label="OpenStack",
        summary="An OpenStack cloud with GPUs; a workspace is a project in it.",
        site="gpuaas.providers.openstack.driver:OpenStackDriver",
        clusters="gpuaas.providers.openstack.clusters.driver:OpenStackClusterDriver",
        nouns=Nouns(space="project", consumer="machine", node=""),
        credentials=CREDENTIALS,
        options=OPTIONS,
    ),
)
