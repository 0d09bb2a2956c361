"""Clusters on demand by Cluster API: a site of Kubernetes is the management cluster."""
