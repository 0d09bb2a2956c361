"""Virtual clusters at Kubernetes sites: a control plane of the tenant's own in a namespace that is guarded as a workspace's."""
