"""A third kind of what is provisioned: notebooks on a desk. It shows what one costs beside workspaces and clusters."""
