-- The slots of a question. Parameters: months, slots, starts, ends, month_starts.
slot AS NOT MATERIALIZED (
    SELECT * FROM unnest(
        %(months)s::date[], %(slots)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[],
        %(month_starts)s::timestamptz[]
    ) AS s (month, slot, starts_at, ends_at, month_starts_at)
),
