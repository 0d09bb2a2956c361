-- What has a price without a flavor, by name. Ends the CTEs of portal_tariff.sql as tariff.sql ends its own.
unsold AS NOT MATERIALIZED (
    SELECT name AS resource_name, md5(name)::uuid AS ware FROM unnest(%(n_names)s::text[]) AS n (name)
)
