"""What is tried by the plain command-line client: a sentence → (the words after `openstack`, what it is answered)."""

BOOT = "server create --flavor {flavor} --image {image} --nic none"
ALL = {
    "boot one more": (f"{BOOT} more", "over a limit"),
    "boot three": (f"{BOOT} --min 3 --max 3 more", "over a limit"),
    "boot on a host": (
        f"{BOOT} --os-compute-api-version 2.74 --host gpu-a100-1 more",
        "requested_destination",
    ),
    "boot by a zone and a host": (f"{BOOT} --availability-zone nova:gpu-a100-1 more", "forced_host"),
    "boot with a flavor that was not granted": (
        "server create --flavor {their_flavor_name} --image {image} --nic none more",
        "No Flavor found",
    ),
    "resize to a flavor that was not granted": (
        "server resize --flavor {their_flavor} {server}",
        "No Flavor found",
    ),
    "make a flavor": ("flavor create --vcpus 1 --ram 1024 --disk 1 mine", "Policy doesn't allow"),
    "ask a flavor for more GPUs": (
        "flavor set --property pci_passthrough:alias=a100:8 {flavor}",
        "Policy doesn't allow",
    ),
    "raise the quota": ("quota set --cores 99 {project}", "403"),
    "raise a limit": ("limit set --resource-limit 99 {limit}", "identity:update_limit"),
    "make a credential that outlives this one": ("application credential create mine", "403"),
    "make an EC2 credential": ("ec2 credentials create", "403"),
    "make a role": ("role create mine", "403"),
    "list everybody's machines": ("server list --all-projects", "Policy doesn't allow"),
    "look at another tenant's machine": ("server show {their_server}", "No Server found"),
    "look at another tenant's network": ("network show {their_network}", "No Network found"),
    "move a machine": ("server migrate {server}", "Policy doesn't allow"),
}
