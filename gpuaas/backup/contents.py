"""What a database holds, asked in one snapshot: tables and their rows, migrations, and keys that sealed values need."""

from django.db import connection
from psycopg import sql

# Their rows are of the running portal only: who is signed in, also at the door (passes name the session), failed sign-ins, which
# processes are alive, what GPUs did in the last minutes and days.
NOT_KEPT = (
    "catalog_sitereadings",
    "core_cache",
    "core_process",
    "django_session",
    "environments_doorpass",
    "gpustats_gpusample",
    "tenants_tries",
    "usersessions_usersession",
)


def tables() -> list[str]:
    """Of the portal; a partitioned one stands for its parts."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


def rows_count() -> dict[str, int]:
    """By table, but for those that are not kept. One statement reads every table whole."""
    kept = [name for name in tables() if name not in NOT_KEPT]
    if not kept:
        return {}
    each = [
        sql.SQL("SELECT {}, count(*) FROM public.{}").format(sql.Literal(name), sql.Identifier(name))
        for name in kept
    ]
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(" UNION ALL ").join(each).as_string(None))
        return dict(cursor.fetchall())


def migrations_applied() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT app || '.' || name FROM public.django_migrations ORDER BY 1")
        return [name for (name,) in cursor.fetchall()]
