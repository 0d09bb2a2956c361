"""What makes a database safe that says what was so some time ago: after a restore, and after a recovery by the server itself.

Nobody works on a claimed row any more. A lease may have been extended since: without the extension it would end at once, and
what is long past it would be deleted. A cluster that waited in a warm pool may have been handed over since: it is nobody
else's any more, and stays. The sites have moved on, so that nothing is changed at one before an operator has confirmed it.
"""

from django.db import connection, transaction
from psycopg import sql

from gpuaas.backup.contents import NOT_KEPT
from gpuaas.catalog.models import Site
from gpuaas.catalog.services import sites_unconfirm
from gpuaas.core import clock
from gpuaas.core.errors import Conflict
from gpuaas.core.models import SEEN, Process
from gpuaas.core.outside import outside_transaction
from tenants.actors import SYSTEM
from tenants.audit import audit_record

LEASE_DAYS = 3  # every lease runs at least so long after a restore
CLOSING = """
DO $$
DECLARE
    place regclass;
BEGIN
    FOR place IN
        SELECT a.attrelid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'claim_token' AND NOT a.attisdropped AND c.relkind = 'r'
            AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('UPDATE %s SET claim_token = NULL, claim_until = NULL WHERE claim_token IS NOT NULL', place);
    END LOOP;
    FOR place IN
        SELECT a.attrelid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'lease_ends_at' AND NOT a.attisdropped AND c.relkind = 'r'
            AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('UPDATE %s SET lease_ends_at = now() + {lease} WHERE lease_ends_at < now() + {lease}'
            ' AND state NOT IN (''deleting'', ''deleted'')', place);
    END LOOP;
    FOR place IN
        SELECT a.attrelid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE a.attname = 'deleted_after' AND NOT a.attisdropped AND c.relkind = 'r'
            AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('UPDATE %s SET deleted_after = NULL WHERE lease_ends_at > now() AND deleted_after IS NOT NULL', place);
    END LOOP;
    IF EXISTS (SELECT FROM information_schema.columns WHERE (table_name, column_name) = ('clusters_cluster', 'claimed_at')) THEN
        UPDATE public.clusters_cluster SET claimed_at = now()
        WHERE warm_pool_id IS NOT NULL AND claimed_at IS NULL AND state NOT IN ('deleting', 'deleted');
    END IF;
    IF EXISTS (SELECT FROM information_schema.columns WHERE (table_name, column_name) = ('catalog_site', 'confirmed')) THEN
        UPDATE public.catalog_site SET confirmed = false WHERE removed_at IS NULL;
    END IF;
END $$;
"""
TOKENS = """
UPDATE public.tenants_apitoken SET revoked_at = now() WHERE revoked_at IS NULL;
DO $$
BEGIN
    IF to_regclass('public.environments_doorkey') IS NOT NULL THEN
        UPDATE public.environments_doorkey SET revoked_at = now() WHERE revoked_at IS NULL;
    END IF;
END $$;
"""


def closing_sql(*, revoke_tokens: bool) -> str:
    """For the transaction of the restore. A table or column that an older release lacks is left out."""
    closing = CLOSING.format(lease=f"interval ''{LEASE_DAYS} days''")
    return closing + (TOKENS if revoke_tokens else "")


def stopped_require() -> None:
    """Raises Conflict if a process of the portal uses the database."""
    alive = list(Process.objects.filter(seen_at__gt=clock.now() - SEEN)[:3])
    if alive:
        names = ", ".join(str(row) for row in alive)
        raise Conflict(f"processes of the portal are running ({names}): stop all of them first")


def recovered(*, revoke_tokens: bool = False) -> list[Site]:
    """What a restore does at its end, for a database that PostgreSQL itself has brought back to an earlier moment. Returns
    the sites at which nothing is changed until they are confirmed. Raises Conflict while a process of the portal runs."""
    outside_transaction()
    stopped_require()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                sql.SQL("TRUNCATE {}")
                .format(sql.SQL(", ").join(map(sql.Identifier, NOT_KEPT)))
                .as_string(None)
            )
            cursor.execute(closing_sql(revoke_tokens=revoke_tokens))
        found = sites_unconfirm()
        for site in found:
            audit_record(actor=SYSTEM, action="backup.recover", target=site, after={"confirmed": False})
    return found
