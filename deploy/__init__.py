"""How the portal is run: embedded services for the demo and the tests, the lab, images, charts, runbooks."""
