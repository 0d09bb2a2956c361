"""Terms of billing: kinds of documents, states of a month's close, accounts of the ledger."""

from django.db import models

from gpuaas.core.looks import Tone
from gpuaas.core.statemachine import Look


class InvoiceKind(models.TextChoices):
    INVOICE = "invoice", "Invoice"
    CREDIT_NOTE = "credit_note", "Credit note"
    DEBIT_NOTE = "debit_note", "Debit note"


# Of corrections. A month whose total is below zero is a credit note too, one that corrects no single document.
NOTE_KINDS = [(kind.value, kind.label) for kind in InvoiceKind if kind != InvoiceKind.INVOICE]


# A series of numbers is a prefix and the year in which a document is closed: INV-2026-0001.
PREFIXES = {InvoiceKind.INVOICE: "INV", InvoiceKind.CREDIT_NOTE: "CN", InvoiceKind.DEBIT_NOTE: "DN"}


class CloseState(models.TextChoices):
    REQUESTED = (
        "requested",
        "Closing",
    )  # -> closed (all of it in one transaction) | refused (nothing was written)
    REFUSED = "refused", "Refused"  # -> requested (an operator asks again)
    CLOSED = "closed", "Closed"  # final: the database refuses to change it


CLOSE_LOOKS = {
    CloseState.REQUESTED: Look("Closing", Tone.BUSY, "clock"),
    CloseState.REFUSED: Look("Refused", Tone.BAD, "alert-triangle"),
    CloseState.CLOSED: Look("Closed", Tone.OK, "check"),
}


class Account(models.TextChoices):
    """Accounts of the double entry, of one organization and currency each. A posting's sign: debit plus, credit minus."""

    RECEIVABLE = "receivable", "Receivable"  # what the organization owes
    REVENUE = "revenue", "Revenue"
    TAX = "tax", "Tax"
    PREPAID = "prepaid", "Prepaid"  # money received that no document has used yet
    CREDIT = "credit", "Credit"  # what credit notes are below zero, not used yet
    CASH = "cash", "Received"  # less what was paid out
    GRANTS = "grants", "Grants"  # promised and not yet used
    GRANTS_GIVEN = "grants_given", "Grants given"  # what promises cost the provider
    WRITE_OFF = "write_off", "Written off"


class EntryKind(models.TextChoices):
    DOCUMENT = "document", "Document"
    GRANT = "grant", "Grant"
    GRANT_USE = "grant_use", "Grant used"
    GRANT_EXPIRY = "grant_expiry", "Grant expired"
    PREPAID = "prepaid", "Payment received"
    PREPAID_USE = "prepaid_use", "Payment used"
    CREDIT = "credit", "Credit given"
    CREDIT_USE = "credit_use", "Credit used"
    PAYOUT = "payout", "Payout"
    REVERSAL = "reversal", "Payment reversed"
    WRITE_OFF = "write_off", "Write-off"
