"""The way in to environments by the browser: Envoy, what it asks, and what it is told."""
