"""What is closed stays: the database itself refuses to change, delete or empty documents and the ledger.

A document is written in one transaction: head, all lines in one statement, all shares in one statement, then its fingerprint.
Sums are checked as they come in, so that nothing can be added later; what is missing is found at commit.
"""

from django.db import migrations

TABLES = ("billing_invoice", "billing_invoiceline", "billing_invoiceshare", "billing_ledgerentry", "billing_ledgerposting")

FUNCTIONS = """
CREATE FUNCTION billing_plain(said text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT translate(said, E'\\t\\n\\r', '   ')
$$;
CREATE FUNCTION billing_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is closed (% refused): write a credit or debit note, or another entry', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE FUNCTION billing_invoice_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.content_hash = '' AND NEW.content_hash <> ''
        AND to_jsonb(NEW) - 'content_hash' = to_jsonb(OLD) - 'content_hash' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'billing_invoice is closed (% refused): write a credit or debit note', TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE FUNCTION billing_month_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the month % is closed (% refused)', to_char(OLD.month, 'YYYY-MM'), TG_OP
        USING ERRCODE = 'restrict_violation';
END
$$;
CREATE FUNCTION billing_invoice_whole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM billing_invoice i WHERE i.id = NEW.id AND i.content_hash <> ''
            AND i.line_count = (SELECT count(*) FROM billing_invoiceline WHERE invoice_id = i.id)
    ) THEN
        RAISE EXCEPTION 'document % lacks lines or its fingerprint', NEW.number USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_lines_add_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM billing_invoice i
        JOIN (
            SELECT invoice_id, count(*) AS lines, coalesce(sum(amount_minor), 0) AS amount FROM billing_invoiceline
            WHERE invoice_id IN (SELECT invoice_id FROM fresh) GROUP BY invoice_id
        ) l ON l.invoice_id = i.id
        WHERE l.lines <> i.line_count OR l.amount <> i.subtotal_minor OR i.content_hash <> ''
    ) THEN
        RAISE EXCEPTION 'the lines of a document are its subtotal, all written at once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_shares_add_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM billing_invoiceline l
        JOIN (
            SELECT line_id, count(*) AS shares, sum(unit_seconds) AS unit_seconds, sum(amount_minor) AS amount
            FROM billing_invoiceshare WHERE line_id IN (SELECT line_id FROM fresh) GROUP BY line_id
        ) s ON s.line_id = l.id
        WHERE s.shares <> l.share_count OR s.unit_seconds <> l.unit_seconds OR s.amount IS DISTINCT FROM l.amount_minor
    ) THEN
        RAISE EXCEPTION 'the shares of a line are the line, all written at once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_postings_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM billing_ledgerentry e
        JOIN (
            SELECT entry_id, count(*) AS postings, sum(amount_minor) AS amount FROM billing_ledgerposting
            WHERE entry_id IN (SELECT entry_id FROM fresh) GROUP BY entry_id
        ) p ON p.entry_id = e.id
        WHERE p.postings <> e.posting_count OR p.amount <> 0
    ) THEN
        RAISE EXCEPTION 'the postings of an entry add up to zero, all written at once' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
CREATE FUNCTION billing_entry_whole() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) <> NEW.posting_count OR count(*) < 2 OR sum(amount_minor) <> 0
        FROM billing_ledgerposting WHERE entry_id = NEW.id) THEN
        RAISE EXCEPTION 'the entry "%" does not balance', NEW.text USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END
$$;
"""

TRIGGERS = """
CREATE TRIGGER billing_no_change BEFORE UPDATE OR DELETE ON billing_invoice
    FOR EACH ROW EXECUTE FUNCTION billing_invoice_closed();
CREATE TRIGGER billing_no_change BEFORE UPDATE OR DELETE ON billing_monthclose
    FOR EACH ROW WHEN (OLD.state = 'closed') EXECUTE FUNCTION billing_month_closed();
CREATE TRIGGER billing_adds_up AFTER INSERT ON billing_invoiceline REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION billing_lines_add_up();
CREATE TRIGGER billing_adds_up AFTER INSERT ON billing_invoiceshare REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION billing_shares_add_up();
CREATE TRIGGER billing_adds_up AFTER INSERT ON billing_ledgerposting REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION billing_postings_balance();
CREATE CONSTRAINT TRIGGER billing_whole AFTER INSERT ON billing_invoice DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION billing_invoice_whole();
CREATE CONSTRAINT TRIGGER billing_whole AFTER INSERT ON billing_ledgerentry DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION billing_entry_whole();
"""
ROWS = """
CREATE TRIGGER billing_no_change BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION billing_closed();
"""
TRUNCATE = """
CREATE TRIGGER billing_no_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT WHEN (current_setting('gpuaas.allow_truncate', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION billing_closed();
"""
FORWARD = (
    FUNCTIONS
    + TRIGGERS
    + "".join(ROWS.format(table=table) for table in TABLES[1:])
    + "".join(TRUNCATE.format(table=table) for table in TABLES)
)
# Tables go with their triggers; the functions stay until then.
BACKWARD = """
DROP FUNCTION billing_plain(text);
DROP FUNCTION billing_closed() CASCADE;
DROP FUNCTION billing_invoice_closed() CASCADE;
DROP FUNCTION billing_month_closed() CASCADE;
DROP FUNCTION billing_invoice_whole() CASCADE;
DROP FUNCTION billing_lines_add_up() CASCADE;
DROP FUNCTION billing_shares_add_up() CASCADE;
DROP FUNCTION billing_postings_balance() CASCADE;
DROP FUNCTION billing_entry_whole() CASCADE;
"""


class Migration(migrations.Migration):
    replaces = [("billing", "0005_documents_are_closed")]
    dependencies = [("billing", "0001_release_1")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
