-- The same as counted.sql where prices change at few moments: usage is first added up by pieces, which are slots cut at each
-- of them, and then meets the tariff as a few rows. So workers add up in parallel, and the planner knows how many groups there are.
-- b.always is true of every piece: an equality makes it a hash join, which reads the few pieces once and not once an interval.
-- Parameters: by_workspace; piece_always, piece_numbers, piece_months, piece_slots, piece_starts, piece_ends.
, piece AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(piece_numbers)s::int[], %(piece_months)s::date[], %(piece_slots)s::date[], %(piece_starts)s::timestamptz[],
        %(piece_ends)s::timestamptz[]
    ) AS p (number, month, slot, starts_at, ends_at)
),
added AS (
    SELECT b.number, u.project, CASE WHEN %(by_workspace)s THEN u.workspace END AS workspace, u.ware, u.meter, u.resource, u.surplus,
           bool_or(u.estimated) AS estimated,
           sum(u.quantity * extract(EPOCH FROM least(u.ended_at, b.ends_at) - greatest(u.started_at, b.starts_at))::bigint)
               AS unit_seconds
    FROM usage u
    JOIN unnest(%(piece_numbers)s::int[], %(piece_starts)s::timestamptz[], %(piece_ends)s::timestamptz[], %(piece_always)s::boolean[])
        AS b (number, starts_at, ends_at, always)
        ON b.always = (u.quantity > 0) AND NOT (u.started_at >= b.ends_at OR u.ended_at <= b.starts_at)
    GROUP BY 1, 2, 3, 4, 5, 6, 7
),
counted AS (
    SELECT b.month, b.slot, a.project, a.workspace, a.resource, a.surplus, t.id AS stretch, bool_or(a.estimated) AS estimated,
           sum(a.unit_seconds) AS unit_seconds
    FROM added a
    JOIN piece b ON b.number = a.number
    JOIN payer p ON p.project = a.project
    JOIN tariff t
        ON t.key = p.key AND t.ware = a.ware AND t.meter = a.meter AND t.tier_mode <> 'graduated'
        AND t.starts_at <= b.starts_at AND t.ends_at >= b.ends_at
    GROUP BY 1, 2, 3, 4, 5, 6, 7
)
