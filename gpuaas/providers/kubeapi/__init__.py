"""Toolkit of the drivers for Kubernetes APIs: the client, and namespaces with limits and guards."""
