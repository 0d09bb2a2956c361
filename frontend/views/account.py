"""The reader's own account."""

from zoneinfo import available_timezones

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse

from frontend.forms.projects import AccountForm
from frontend.frame import done, draw_page, posted
from frontend.nav import Crumb
from frontend.place import place_of
from tenants.models import User


@login_required
def account(request: HttpRequest) -> HttpResponse:
    user = place_of(request).user
    form = AccountForm(posted(request), initial={"time_zone": user.time_zone})
    if form.is_valid():
        User.objects.filter(pk=user.pk).update(time_zone=form.cleaned_data["time_zone"])
        return done(request, f"All times are now in {form.cleaned_data['time_zone']}.", "frontend:account")
    context = {
        "form": form,
        "zones": sorted(name for name in available_timezones() if "/" in name or name == "UTC"),
        "crumbs": (Crumb("Account"),),
    }
    return draw_page(request, "account/index.html", context)
