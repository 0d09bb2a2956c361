"""OpenShift: Kubernetes with projects, a quota over several of them, and routes; each used where it is served."""
