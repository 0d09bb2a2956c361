"""The tenants' pages, one module per area: parse, ask a selector or a service, draw."""
