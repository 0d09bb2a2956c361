"""PDF files of documents: created once, by a worker, and stored."""

import structlog

from billing.models import Invoice, InvoiceDocument
from billing.pdf import invoice_pdf, pdf_trouble
from billing.selectors.documents import pdf_of, pdfs_missing
from gpuaas.core import clock
from gpuaas.core.errors import Unavailable
from gpuaas.core.queue import poke

log = structlog.get_logger(__name__)
BATCH = 20


def pdfs_make() -> int:
    """Creates missing files, the oldest first, a batch at a time; returns how many. A failure is logged and does not
    affect the others: those behind it are made in the same round."""
    if pdf_trouble():
        log.warning("pdf_not_available", reason=pdf_trouble())
        return 0
    done = 0
    for invoice in pdfs_missing().select_related("organization")[: BATCH * 10]:
        if done == BATCH:
            break
        try:
            pdf_make(invoice=invoice)
            done += 1
        except Exception:
            log.exception("pdf_failed", invoice=invoice.number)
    return done


def pdf_make(*, invoice: Invoice) -> bytes:
    """If two workers create it at once, the first file is stored; both are identical."""
    pdf = invoice_pdf(invoice=invoice)
    made = InvoiceDocument(invoice=invoice, pdf=pdf, made_at=clock.now())
    InvoiceDocument.objects.bulk_create([made], ignore_conflicts=True)
    return pdf


def pdf_ready(*, invoice: Invoice) -> bytes:
    """The file; if it does not exist yet, Unavailable with retry_after, and a worker is asked to create it."""
    found = pdf_of(invoice=invoice)
    if found is not None:
        return found
    if pdf_trouble():
        raise Unavailable(pdf_trouble(), retry_after=3600)
    poke("billing.pdfs_due")
    raise Unavailable(
        f"the PDF of {invoice.number} is being created; try again in a few seconds", retry_after=5
    )
