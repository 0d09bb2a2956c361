-- What is open, where no holders are told apart. open.sql comes before it.
, told AS (
    SELECT o.project, NULL::uuid AS holder, '' AS kind, o.ware, o.meter, o.surplus, o.until, sum(o.quantity) AS quantity
    FROM open o
    GROUP BY 1, 4, 5, 6, 7
)
