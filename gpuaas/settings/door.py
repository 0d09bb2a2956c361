"""Settings of the door: how people come in to environments, by the browser and by SSH."""

from gpuaas.core import env

#: Addresses of environments: the domain below which each environment has a name, for all processes; with a port if it is
#: not 443
DOOR_DOMAIN = env.domain("GPUAAS_DOOR_DOMAIN")
#: Addresses of environments: the file, in PEM, of the certificate for all names below it; for the door
DOOR_CERTIFICATE = env.text("GPUAAS_DOOR_CERTIFICATE", "")
#: Addresses of environments: the file of its key
DOOR_KEY = env.text("GPUAAS_DOOR_KEY", "")
#: Addresses of environments: where the door listens
DOOR_BIND = env.address("GPUAAS_DOOR_BIND", "0.0.0.0:8443")
#: Addresses of environments: the host and port by which people reach the door by SSH, for all processes; without it
#: there is no SSH
DOOR_SSH = env.address("GPUAAS_DOOR_SSH")
#: Addresses of environments: where the door listens for SSH
DOOR_SSH_BIND = env.address("GPUAAS_DOOR_SSH_BIND", "0.0.0.0:2222")
