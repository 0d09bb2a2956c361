"""Addresses in lower case, each of one account: of several with the same the first made keeps it, and the audit log has the
others. What an account had besides its address, by pages that there are no more, opens nothing."""

from django.db import migrations
from django.db.models.functions import Lower


def put_apart(apps, schema_editor):
    User, Entry = apps.get_model("tenants", "User"), apps.get_model("tenants", "AuditEntry")
    seen = set()
    for user in User.objects.exclude(email="").order_by("date_joined", "pk").only("username", "email").iterator():
        address = user.email.lower()
        if address in seen:
            Entry.objects.create(
                actor="system",
                action="user.address_clear",
                target_kind="user",
                target_id=str(user.pk),
                target_name=user.username,
                before={"email": user.email},
                after={"email": ""},
            )
            address = ""
        seen.add(address)
        if address != user.email:
            User.objects.filter(pk=user.pk).update(email=address)
    EmailAddress = apps.get_model("account", "EmailAddress")
    for row in EmailAddress.objects.annotate(low=Lower("email")).select_related("user").iterator():
        if row.low != User.objects.get(pk=row.user_id).email:
            row.delete()


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0004_tries"),
        ("account", "0009_emailaddress_unique_primary_email"),
    ]

    operations = [migrations.RunPython(put_apart, migrations.RunPython.noop)]
