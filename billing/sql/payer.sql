-- Who pays for a project, in which currency, and by which tariff. Organizations without prices of their own share the
-- tariff of the standard card (key = card); the others have one each (key = organization); without a card there is none.
-- Parameters: projects, organization (one alone, where only its prices are asked), currency (of organizations without an
-- account), divisor and, where it differs, currencies, divisors.
account AS (
    SELECT o.id AS organization, c.currency, c.divisor, standard.id AS card, own.id AS own_card,
           CASE
               WHEN own.id IS NOT NULL
                 OR EXISTS (SELECT 1 FROM billing_discount d WHERE d.organization_id = o.id) THEN o.id
               ELSE coalesce(standard.id, '00000000-0000-0000-0000-000000000000')
           END AS key
    FROM tenants_organization o
    LEFT JOIN billing_billingaccount a ON a.organization_id = o.id
    CROSS JOIN LATERAL (
        SELECT coalesce(a.currency, %(currency)s) AS currency,
               coalesce(
                   (%(divisors)s::bigint[])[array_position(%(currencies)s::text[], coalesce(a.currency, %(currency)s)::text)],
                   %(divisor)s::bigint
               ) AS divisor
    ) c
    LEFT JOIN billing_ratecard standard ON standard.organization_id IS NULL AND standard.currency = c.currency
    LEFT JOIN billing_ratecard own ON own.organization_id = o.id AND own.currency = c.currency
    WHERE o.id = %(organization)s::uuid
       OR %(organization)s::uuid IS NULL AND %(projects)s::uuid[] IS NULL
       OR o.id IN (SELECT p.organization_id FROM tenants_project p WHERE p.id = ANY (%(projects)s::uuid[]))
),
payer AS (
    SELECT p.id AS project, a.organization, a.key, a.currency, a.divisor
    FROM (
        SELECT id, organization_id FROM tenants_project WHERE id = ANY (%(projects)s::uuid[])
        UNION ALL
        SELECT id, organization_id FROM tenants_project WHERE %(projects)s::uuid[] IS NULL
    ) p
    JOIN account a ON a.organization = p.organization_id
),
