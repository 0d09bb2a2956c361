-- What counts is what meters have told, and what was idle. portal_usage.sql or portal_sessions.sql and portal_idle.sql come before it.
, usage AS NOT MATERIALIZED (
    SELECT * FROM metered
    UNION ALL
    SELECT id, project, NULL, key, ware, 'gpu_idle', quantity, started_at, ended_at, '', false, false FROM idle
)
