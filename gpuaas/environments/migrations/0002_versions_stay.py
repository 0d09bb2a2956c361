"""A version of a kind is never changed."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION environments_kindversion_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a version of a kind is never changed: add another';
END $$;
CREATE TRIGGER environments_kindversion_stays
BEFORE UPDATE OF kind_id, number, document ON environments_kindversion
FOR EACH ROW EXECUTE FUNCTION environments_kindversion_stays();
"""
BACKWARD = """
DROP TRIGGER environments_kindversion_stays ON environments_kindversion;
DROP FUNCTION environments_kindversion_stays();
"""


class Migration(migrations.Migration):
    dependencies = [("environments", "0001_environments")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
