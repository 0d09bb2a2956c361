-- Rows whose id was taken in before, with another meaning.
SELECT t.line, 'the id ' || t.name || ' was taken in before with another meaning'
FROM import_told t
JOIN metering_usageinterval i ON i.id = t.key
WHERE t.known
  AND (i.project_id, i.workspace_id, i.flavor_id, i.meter, i.quantity, i.started_at, i.ended_at)
    IS DISTINCT FROM (t.project_id, t.workspace_id, t.flavor_id, t.meter, t.quantity, t.started_at, t.ended_at)
