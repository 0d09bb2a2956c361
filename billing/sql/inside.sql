-- What intervals of one workspace are charged by themselves, and, of GPUs that it holds, what they had of that (shared): unit-seconds by
-- month and unit price. What is lent is held by nobody; what was beyond the purchase is nobody's share. portal_tariff.sql,
-- portal_slots.sql, portal_usage.sql or portal_sessions.sql, and price.sql come before it.
-- Parameters: now, lent; and by interval: ids, and the vcpus and memory (GiB) of the pod that had the GPUs.
, own AS MATERIALIZED (
    SELECT m.*, o.vcpus, o.memory, least(m.ended_at, coalesce(i.ended_at, %(now)s)) AS really_ended_at
    FROM unnest(%(ids)s::uuid[], %(vcpus)s::bigint[], %(memory)s::bigint[]) AS o (id, vcpus, memory)
    JOIN metered m ON m.id = o.id
    JOIN metering_usageinterval i ON i.id = o.id
),
part AS (
    SELECT key, ware, meter, quantity, surplus, started_at, ended_at, false AS shared FROM own
    UNION ALL
    SELECT o.key, s.ware, s.meter, s.quantity, false, o.started_at, o.really_ended_at, true
    FROM own o
    CROSS JOIN LATERAL (VALUES
        (o.ware, 'gpu_held', o.quantity::bigint),
        ('00000000-0000-0000-0000-000000000000'::uuid, 'vcpu_held', o.vcpus),
        ('00000000-0000-0000-0000-000000000000'::uuid, 'memory_held', o.memory)
    ) AS s (ware, meter, quantity)
    WHERE o.meter = 'gpu_allocated' AND NOT o.surplus AND NOT %(lent)s AND s.quantity > 0
)
SELECT s.month, u.shared, u.surplus, nullif(t.flavor, '00000000-0000-0000-0000-000000000000'), t.meter, t.status, t.tier_mode <> '',
       p.price_micro::bigint,
       sum(u.quantity * extract(EPOCH FROM
           least(u.ended_at, s.ends_at, t.ends_at) - greatest(u.started_at, s.starts_at, t.starts_at))::bigint)::bigint
FROM part u
JOIN slot s ON NOT (u.started_at >= s.ends_at OR u.ended_at <= s.starts_at)
JOIN tariff t
    ON t.key = u.key AND t.ware = u.ware AND t.meter = u.meter
    AND NOT (t.starts_at >= least(u.ended_at, s.ends_at) OR t.ends_at <= greatest(u.started_at, s.starts_at))
JOIN price p ON p.stretch = t.id AND p.surplus = u.surplus
WHERE t.status <> 'included'
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
