-- What counts is what meters have told. portal_usage.sql or portal_sessions.sql comes before it.
, usage AS NOT MATERIALIZED (SELECT * FROM metered)
