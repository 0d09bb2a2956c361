-- New rows of a file whose place (workspace, meter and GPU pool) is counted at the same time by another row of the file, by another
-- import, or by the portal itself: line, which of the three, and what is there. Two rows of the file are told once, at the later one.
-- Sorted by start, a row overlaps one before it if the latest end before it is after its start, and one behind it if the earliest
-- start behind it is before its end. Parameters: now, allowed (kinds that are not told).
WITH place AS MATERIALIZED (
    SELECT workspace_id, meter, gpus, min(resource) AS resource, min(started_at) AS first, max(ended_at) AS last
    FROM import_told WHERE NOT known
    GROUP BY workspace_id, meter, gpus
),
span AS MATERIALIZED (
    SELECT row_number() OVER () AS ref, s.*
    FROM (
        SELECT 'file' AS kind, NOT t.known AS fresh, t.line, NULL::uuid AS interval, t.workspace_id, t.meter, t.gpus, t.started_at,
               t.ended_at
        FROM import_told t
        JOIN place USING (workspace_id, meter, gpus)
        UNION ALL
        SELECT CASE WHEN i.consumer_uid LIKE 'import:%%' THEN 'imports' ELSE 'metered' END, false, NULL, i.id, p.workspace_id, p.meter,
               p.gpus, i.started_at, coalesce(i.ended_at, %(now)s)
        FROM place p
        JOIN metering_usageinterval i ON i.workspace_id = p.workspace_id AND i.meter = p.meter
            AND i.started_at < p.last AND coalesce(i.ended_at, %(now)s) > p.first
        LEFT JOIN catalog_flavor f ON f.id = i.flavor_id
        WHERE (p.gpus IN (p.meter, f.pool_id::text) OR (i.flavor_id IS NULL AND i.resource_name = p.resource))
          AND coalesce(i.ended_at, %(now)s) > i.started_at
          AND NOT EXISTS (SELECT 1 FROM import_told t WHERE t.key = i.id)
    ) s
),
beside AS (
    SELECT line, fresh, extract(EPOCH FROM started_at) AS starts, extract(EPOCH FROM ended_at) AS ends,
           max(ARRAY[extract(EPOCH FROM ended_at), ref]) FILTER (WHERE kind = 'file') OVER before AS file_before,
           min(ARRAY[extract(EPOCH FROM started_at), ref]) FILTER (WHERE kind = 'file' AND NOT fresh) OVER behind AS file_behind,
           max(ARRAY[extract(EPOCH FROM ended_at), ref]) FILTER (WHERE kind = 'imports') OVER before AS imports_before,
           min(ARRAY[extract(EPOCH FROM started_at), ref]) FILTER (WHERE kind = 'imports') OVER behind AS imports_behind,
           max(ARRAY[extract(EPOCH FROM ended_at), ref]) FILTER (WHERE kind = 'metered') OVER before AS metered_before,
           min(ARRAY[extract(EPOCH FROM started_at), ref]) FILTER (WHERE kind = 'metered') OVER behind AS metered_behind
    FROM span
    WINDOW before AS (
        PARTITION BY workspace_id, meter, gpus ORDER BY started_at, line, ref ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ),
    behind AS (
        PARTITION BY workspace_id, meter, gpus ORDER BY started_at DESC, line DESC, ref DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT b.line, k.kind,
       'the same workspace, meter and GPUs are counted at the same time '
       || CASE k.kind
              WHEN 'file' THEN 'by line ' || o.line
              WHEN 'imports' THEN 'by ' || i.consumer_name || ' of ' || coalesce('the import ' || m.name, 'an earlier import')
              ELSE 'by the portal itself'
          END
       || ': from ' || to_char(o.started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
       || ' to ' || to_char(o.ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
FROM beside b
CROSS JOIN LATERAL (
    VALUES ('file', file_before, file_behind), ('imports', imports_before, imports_behind), ('metered', metered_before, metered_behind)
) AS k (kind, before, behind)
JOIN span o ON o.ref = CASE WHEN k.before[1] > b.starts THEN k.before[2] WHEN k.behind[1] < b.ends THEN k.behind[2] END
LEFT JOIN metering_usageinterval i ON i.id = o.interval
LEFT JOIN metering_usageimport m ON m.id = i.batch_id
WHERE b.fresh AND k.kind <> ALL (%(allowed)s::text[])
ORDER BY b.line, k.kind
