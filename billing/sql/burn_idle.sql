-- What is idle of each reserved pool at the instant `first`, and what a unit-hour of it costs then; of tiers the first price.
-- The CTEs of tariff.sql and portal_idle.sql come before it.
SELECT i.id, i.project, i.ware, i.quantity, r.valid_to,
       div(2 * t.price_micro::numeric * (10000 - t.discount) + 10000, 20000) AS price_micro
FROM idle i
JOIN quotas_poolreservation r ON r.id = i.id
LEFT JOIN tariff t
    ON t.key = i.key AND t.ware = i.ware AND t.meter = 'gpu_idle' AND t.starts_at <= %(first)s AND t.ends_at > %(first)s
WHERE i.started_at <= %(first)s AND i.ended_at > %(first)s
ORDER BY i.id
