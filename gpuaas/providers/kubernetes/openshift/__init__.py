"""OpenShift: Kubernetes with projects, a quota across projects, and routes; each is used if the site serves it."""
