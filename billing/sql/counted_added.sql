-- What was added up by pieces meets the tariff. counted_pieces.sql or kept_pieces.sql comes before it. Each sum finds one
-- stretch: pieces are
-- cut at every change of price. Who pays and what piece it is stand in each sum already: joined here, on columns of which the
-- planner knows nothing, it would take all of them for one row and read the tariff once for each.
, counted AS (
    SELECT a.month, a.slot, a.project, a.holder, a.resource, a.surplus, p.rate, p.tier_mode, p.kind, p.divisor, p.price_micro, p.factor,
           a.estimated, a.unit_seconds
    FROM added a
    JOIN price p
        ON p.key = a.key AND p.ware = a.ware AND p.meter = a.meter AND p.surplus = a.surplus AND p.tier_mode <> 'graduated'
        AND p.starts_at <= a.starts_at AND p.ends_at >= a.ends_at
)
