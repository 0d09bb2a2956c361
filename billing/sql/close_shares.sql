-- The cells of the lines that are posted, by line.
INSERT INTO close_share
SELECT l.id AS line, c.holder, c.day, sum(c.unit_seconds)::bigint AS unit_seconds, sum(c.minor)::bigint AS minor
FROM close_cell c
JOIN close_line l
    ON l.charge_month = c.charge_month AND l.project = c.project
    AND coalesce(l.flavor, '00000000-0000-0000-0000-000000000000') = coalesce(c.flavor, '00000000-0000-0000-0000-000000000000')
    AND l.resource = c.resource AND l.meter = c.meter AND l.price_class = c.price_class AND l.status = c.status
    AND l.surplus = c.surplus AND coalesce(l.price_micro, -1) = coalesce(c.price_micro, -1)
GROUP BY 1, 2, 3
HAVING sum(c.unit_seconds) <> 0 OR coalesce(sum(c.minor), 0) <> 0
