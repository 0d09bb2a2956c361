),
-- What is kept and what came after it, added up. kept_pieces.sql, and kept_idle.sql where a pool is reserved, come before it.
added AS (
    SELECT key, month, slot, starts_at, ends_at, project, holder, ware, meter, resource, surplus, bool_or(estimated) AS estimated,
           sum(unit_seconds) AS unit_seconds
    FROM used
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
)
