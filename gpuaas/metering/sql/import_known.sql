-- import_rows.sql comes before it. Rows whose id was taken in before, with another meaning.
SELECT t.line, 'the id ' || t.name || ' was taken in before with another meaning'
FROM told t
LEFT JOIN metering_usageinterval i ON i.id = t.key
WHERE (i.project_id, i.workspace_id, i.flavor_id, i.meter, i.quantity, i.started_at, i.ended_at)
    IS DISTINCT FROM (t.project_id, t.workspace_id, t.flavor_id, t.meter, t.quantity, t.started_at, t.ended_at)
