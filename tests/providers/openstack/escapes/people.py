"""Of Keystone: limits, roles, projects and credentials of one's own."""

from tests.providers.openstack.escapes.shapes import Escape, each

DENIED = "not authorized to perform the requested action"
LIMIT = {"service_id": "{service}", "region_id": "RegionOne", "resource_name": "servers"}
EC2 = {"type": "ec2", "blob": '{"access": "a", "secret": "b"}', "user_id": "{me}", "project_id": "{project}"}
TRUST = {
    "trustor_user_id": "{me}",
    "trustee_user_id": "{other}",
    "project_id": "{project}",
    "impersonation": True,
    "roles": [{"name": "member"}],
}

LIMITS = [
    Escape("make a limit of one's own", "POST", "identity", "/limits",
           {"limits": [{**LIMIT, "resource_limit": 99, "project_id": "{project}"}]}),
    Escape("raise a limit", "PATCH", "identity", "/limits/{limit}", {"limit": {"resource_limit": 99}}),
    Escape("delete a limit, so that the site's default holds", "DELETE", "identity", "/limits/{limit}"),
    Escape("look at another tenant's limit", "GET", "identity", "/limits/{their_limit}"),
    Escape("raise the site's default", "PATCH", "identity", "/registered_limits/{registered}",
           {"registered_limit": {"default_limit": 99}}),
    Escape("register a limit", "POST", "identity", "/registered_limits",
           {"registered_limits": [{**LIMIT, "default_limit": 9}]}),
    Escape("delete a registered limit", "DELETE", "identity", "/registered_limits/{registered}"),
]  # fmt: skip

ROLES = [
    *each("PUT", "identity", [
        ("become an administrator of one's project", "/projects/{project}/users/{me}/roles/{admin}"),
        ("become a member of another project", "/projects/{theirs}/users/{me}/roles/{member}"),
        ("become an administrator of the system", "/system/users/{me}/roles/{admin}"),
        ("become an administrator of the domain", "/domains/default/users/{me}/roles/{admin}"),
        ("let others into one's project", "/projects/{project}/users/{other}/roles/{member}"),
        ("let the role of a member imply the administrator's", "/roles/{member}/implies/{admin}"),
        ("inherit a role downwards",
         "/OS-INHERIT/projects/{project}/users/{me}/roles/{admin}/inherited_to_projects"),
        ("take off the portal's marks", "/projects/{project}/tags", {"tags": []}),
        ("forge the portal's mark", "/projects/{project}/tags/gpuaas-workspace-{other}"),
    ]),
    *each("POST", "identity", [
        ("make a role", "/roles", {"role": {"name": "mine"}}),
        ("make a project below one's own", "/projects",
         {"project": {"name": "mine", "domain_id": "default", "parent_id": "{project}"}}),
        ("make a user", "/users", {"user": {"name": "mine", "domain_id": "default", "password": "mine"}}),
        ("make a domain", "/domains", {"domain": {"name": "mine"}}),
        ("make a group", "/groups", {"group": {"name": "mine", "domain_id": "default"}}),
        ("make a service", "/services", {"service": {"type": "compute", "name": "mine"}}),
    ]),
    *each("PATCH", "identity", [
        ("rename the project", "/projects/{project}", {"project": {"name": "mine"}}),
        ("set one's own password without the old one", "/users/{me}", {"user": {"password": "mine"}}),
        ("set another member's password", "/users/{other}", {"user": {"password": "mine"}}),
    ]),
    Escape("delete the project and keep the machines", "DELETE", "identity", "/projects/{project}"),
    *each("GET", "identity", [
        ("list all users", "/users"),
        ("list all projects", "/projects"),
        ("look at another project", "/projects/{theirs}"),
        ("look at another user", "/users/{other}"),
        ("list who has which role", "/role_assignments"),
        ("list another user's credentials", "/users/{other}/application_credentials"),
    ]),
]  # fmt: skip

CREDENTIALS = [
    *each("POST", "identity", [
        ("make a credential that outlives this one", "/users/{me}/application_credentials",
         {"application_credential": {"name": "mine", "unrestricted": True}}),
        ("make a credential of another user", "/users/{other}/application_credentials",
         {"application_credential": {"name": "mine"}}),
        ("trust another tenant", "/OS-TRUST/trusts", {"trust": TRUST}),
        ("make an EC2 credential", "/users/{me}/credentials/OS-EC2", {"tenant_id": "{project}"}),
        ("make a credential by hand", "/credentials", {"credential": EC2}),
        ("make an OAuth consumer", "/OS-OAUTH1/consumers", {"consumer": {}}),
    ]),
    Escape("change one's password by guessing the old one", "POST", "identity", "/users/{me}/password",
           {"user": {"password": "mine", "original_password": "guess"}}, status=401, words="requires authentication"),
    Escape("delete the portal's record of this credential", "DELETE", "identity",
           "/users/{me}/application_credentials/{credential}"),
]  # fmt: skip

ALL = [
    Escape(row.what, row.verb, row.service, row.path, row.body, row.status, row.words or DENIED)
    for row in (*LIMITS, *ROLES, *CREDENTIALS)
]
