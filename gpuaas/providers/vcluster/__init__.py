"""Virtual clusters at Kubernetes sites: a tenant's own control plane in a namespace that is guarded like a workspace's."""
