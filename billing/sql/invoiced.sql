-- What was counted, and of final months what their invoices say, with all corrections: credit and debit notes are not usage. The
-- seconds of a line are shared out anew, so that every view has the cells that its intervals gave. cells.sql comes before it.
-- Parameters: invoiced_months, invoiced_slots (their first days), invoiced_lasts (days that are not in them any more),
-- projects_asked, holders, by_holder, currencies, divisors, divisor.
, share AS NOT MATERIALIZED (
    SELECT l.charge_month AS month, s.day, l.project_id AS project, coalesce(s.workspace_id, s.cluster_id) AS holder,
           l.flavor_id AS flavor, l.resource::text AS resource, l.meter::text AS meter, l.price_class::text AS price_class, l.surplus,
           l.status::text AS status, l.unit_price_micro AS price_micro, l.estimated, s.unit_seconds
    FROM billing_invoiceline l
    JOIN billing_invoice i ON i.id = l.invoice_id AND i.corrects_id IS NULL
    JOIN billing_invoiceshare s ON s.line_id = l.id
    WHERE l.charge_month = ANY (%(invoiced_months)s::date[])
      AND (%(projects_asked)s::uuid[] IS NULL OR l.project_id = ANY (%(projects_asked)s::uuid[]))
    UNION ALL
    SELECT month, day, project_id, holder, flavor_key, resource::text, meter::text, price_class::text, surplus, status::text,
           unit_price_micro, false, unit_seconds
    FROM billing_movedusage
    WHERE month = ANY (%(invoiced_months)s::date[])
      AND (%(projects_asked)s::uuid[] IS NULL OR project_id = ANY (%(projects_asked)s::uuid[]))
),
invoiced AS MATERIALIZED (
    SELECT a.month, a.slot, s.project, CASE WHEN %(by_holder)s THEN s.holder END AS holder,
           coalesce(s.flavor, '00000000-0000-0000-0000-000000000000') AS flavor, s.resource, s.meter, s.price_class, s.surplus,
           s.status, s.price_micro::numeric AS price_micro,
           coalesce((%(divisors)s::bigint[])[array_position(%(currencies)s::text[], p.currency)], %(divisor)s::bigint) AS divisor,
           bool_or(s.estimated) AS estimated, sum(s.unit_seconds) AS unit_seconds
    FROM unnest(%(invoiced_months)s::date[], %(invoiced_slots)s::date[], %(invoiced_lasts)s::date[]) AS a (month, slot, last_day)
    JOIN share s ON s.month = a.month AND s.day >= a.slot AND s.day < a.last_day
    JOIN payer p ON p.project = s.project
    WHERE %(holders)s::uuid[] IS NULL OR s.holder IS NULL OR s.holder = ANY (%(holders)s::uuid[])
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
    HAVING sum(s.unit_seconds) <> 0
),
invoiced_cell AS MATERIALIZED (
    SELECT v.*, -dense_rank() OVER (ORDER BY flavor, meter, price_class, status, divisor) AS kind FROM invoiced v
),
kind AS MATERIALIZED (
    SELECT kind, flavor, meter, price_class, status, divisor FROM counted_kind
    UNION ALL
    SELECT DISTINCT kind, flavor, meter, price_class, status, divisor FROM invoiced_cell
),
cell AS (
    SELECT kind, month, slot, project, holder, resource, surplus, divisor, price_micro, unit_seconds, estimated FROM counted_cell
    UNION ALL
    SELECT kind, month, slot, project, holder, resource, surplus, divisor, price_micro, unit_seconds, estimated FROM invoiced_cell
)
