-- Holders are not told apart, so thousands of rows become a few before anything else is asked of them. open_rows.sql comes before it.
, open_part AS (
    SELECT project, NULL::uuid AS holder, of_cluster, flavor, resource_name, meter, surplus, sum(quantity)::bigint AS quantity, until
    FROM open_row
    GROUP BY 1, 3, 4, 5, 6, 7, 9
)
