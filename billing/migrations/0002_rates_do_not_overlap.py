"""Two rates of one flavor, meter and price class never overlap, whoever writes them.

An exclusion constraint on a scalar key needs the extension btree_gist, which managed and embedded servers may lack. A range
over text, of one point, has the equality operator that GiST can index, and needs no extension.
"""

from django.db import migrations

FORWARD = """
CREATE TYPE billing_rate_key AS RANGE (subtype = text, collation = "C");
ALTER TABLE billing_rate ADD CONSTRAINT rate_no_overlap EXCLUDE USING gist (
    billing_rate_key(
        card_id::text || '/' || coalesce(flavor_id::text, '') || '/' || meter || '/' || price_class,
        card_id::text || '/' || coalesce(flavor_id::text, '') || '/' || meter || '/' || price_class,
        '[]'
    ) WITH =,
    tstzrange(valid_from, valid_to) WITH &&
);
"""
BACKWARD = """
ALTER TABLE billing_rate DROP CONSTRAINT rate_no_overlap;
DROP TYPE billing_rate_key;
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
