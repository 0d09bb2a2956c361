    -- What was idle of reserved pools is never kept. portal_idle.sql comes before kept_pieces.sql.
    UNION ALL
    SELECT f.key, f.month, f.slot, f.starts_at, f.ends_at, i.project, NULL, i.ware, 'gpu_idle', '', false, false,
           i.quantity * extract(EPOCH FROM least(i.ended_at, f.ends_at) - greatest(i.started_at, f.starts_at))::bigint
    FROM idle i
    JOIN part f ON f.project = i.project AND NOT (i.started_at >= f.ends_at OR i.ended_at <= f.starts_at)
