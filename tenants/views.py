"""allauth's pages where they need more than settings."""

import structlog
from allauth.account.views import PasswordResetView
from django.conf import settings
from django.core.mail import get_connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

log = structlog.get_logger(__name__)


class PasswordReset(PasswordResetView):
    """Says so where no mail is sent. Whether an account has the address is told by none of the answers: the mail server is
    asked in any case."""

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not settings.MAILS_ENABLED:
            return render(request, "account/no_mail.html")
        shown: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return shown

    def form_valid(self, form: object) -> HttpResponse:
        try:
            server = get_connection()
            server.open()
            server.close()
            sent: HttpResponse = super().form_valid(form)
        except OSError as error:
            log.warning("the mail server does not answer", error=str(error))
            return render(self.request, "account/no_mail.html", {"away": True}, status=503)
        return sent
