-- The same as counted.sql where prices change at few moments: usage is first added up by pieces, which are slots cut at each
-- of them, and then meets the tariff as a few rows. So workers add up in parallel, and the planner knows how many groups there are.
-- b.always is true of every piece: an equality makes it a hash join, which reads the few pieces once and not once an interval.
-- Parameters: by_holder; piece_always, piece_numbers, piece_months, piece_slots, piece_starts, piece_ends.
, piece AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(piece_numbers)s::int[], %(piece_months)s::date[], %(piece_slots)s::date[], %(piece_starts)s::timestamptz[],
        %(piece_ends)s::timestamptz[]
    ) AS p (number, month, slot, starts_at, ends_at)
),
summed AS (
    SELECT b.number, u.project, CASE WHEN %(by_holder)s THEN u.holder END AS holder, u.ware, u.meter, u.resource, u.surplus,
           bool_or(u.estimated) AS estimated,
           sum(u.quantity * extract(EPOCH FROM least(u.ended_at, b.ends_at) - greatest(u.started_at, b.starts_at))::bigint)
               AS unit_seconds
    FROM usage u
    JOIN unnest(%(piece_numbers)s::int[], %(piece_starts)s::timestamptz[], %(piece_ends)s::timestamptz[], %(piece_always)s::boolean[])
        AS b (number, starts_at, ends_at, always)
        ON b.always = (u.quantity > 0) AND NOT (u.started_at >= b.ends_at OR u.ended_at <= b.starts_at)
    GROUP BY 1, 2, 3, 4, 5, 6, 7
),
added AS (
    SELECT p.key, b.month, b.slot, b.starts_at, b.ends_at, s.*
    FROM summed s
    JOIN piece b ON b.number = s.number
    JOIN payer p ON p.project = s.project
)
