"""A version of a template is never changed, but for the moment from which it is deprecated."""

from django.db import migrations

FORWARD = """
CREATE FUNCTION clusters_templateversion_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a version of a template is never changed: add another';
END $$;
CREATE TRIGGER clusters_templateversion_stays
BEFORE UPDATE OF template_id, number, document ON clusters_templateversion
FOR EACH ROW EXECUTE FUNCTION clusters_templateversion_stays();
"""
BACKWARD = """
DROP TRIGGER clusters_templateversion_stays ON clusters_templateversion;
DROP FUNCTION clusters_templateversion_stays();
"""


class Migration(migrations.Migration):
    replaces = [("clusters", "0002_versions_stay")]
    dependencies = [("clusters", "0001_release_1")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
