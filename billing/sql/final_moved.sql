-- What is left of cells of usage less the shares of invoices, in a month whose lines are all the same.
INSERT INTO billing_movedusage (
    month, project_id, holder, day, flavor_key, resource, meter, price_class, status, unit_price_micro, surplus, unit_seconds
)
SELECT charge_month, project, holder, day, flavor, resource, meter, price_class, status, price_micro, surplus, sum(unit_seconds)
FROM close_cell
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
HAVING sum(unit_seconds) <> 0
