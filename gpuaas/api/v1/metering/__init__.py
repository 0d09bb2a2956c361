"""Usage and the meters of sites."""
