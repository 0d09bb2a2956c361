"""Two rates of one card, flavor or resource, meter and price class never overlap, nor do two discounts, whoever writes them.

An exclusion constraint on a scalar key needs the extension btree_gist, which managed and embedded servers may lack. A range
over text, of one point, has the equality operator that GiST can index, and needs no extension.
"""

from django.db import migrations

EXCLUDE = """
ALTER TABLE {table} ADD CONSTRAINT {name} EXCLUDE USING gist (
    billing_rate_key({key}, {key}, '[]') WITH =, tstzrange(valid_from, valid_to) WITH &&
);
"""
RATE = "card_id::text || '/' || coalesce(flavor_id::text, '') || '/' || meter || '/' || price_class || '/' || resource_name"
DISCOUNT = "organization_id::text || '/' || coalesce(flavor_id::text, '')"
FORWARD = (
    'CREATE TYPE billing_rate_key AS RANGE (subtype = text, collation = "C");'
    + EXCLUDE.format(table="billing_rate", name="rate_no_overlap", key=RATE)
    + EXCLUDE.format(table="billing_discount", name="discount_no_overlap", key=DISCOUNT)
)
BACKWARD = """
ALTER TABLE billing_discount DROP CONSTRAINT discount_no_overlap;
ALTER TABLE billing_rate DROP CONSTRAINT rate_no_overlap;
DROP TYPE billing_rate_key;
"""


class Migration(migrations.Migration):
    replaces = [("billing", "0002_rates_do_not_overlap")]
    dependencies = [("billing", "0003_usage_changes_void")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
