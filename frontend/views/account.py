"""The reader's own account."""

from zoneinfo import available_timezones

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from frontend.forms.projects import AccountForm
from frontend.nav import Crumb
from frontend.place import place_of
from tenants.models import User


@login_required
def account(request: HttpRequest) -> HttpResponse:
    user = place_of(request).user
    form = AccountForm(request.POST or None, initial={"time_zone": user.time_zone})
    if request.method == "POST" and form.is_valid():
        User.objects.filter(pk=user.pk).update(time_zone=form.cleaned_data["time_zone"])
        messages.success(request, f"All times are now in {form.cleaned_data['time_zone']}.")
        return redirect("frontend:account")
    context = {
        "form": form,
        "zones": sorted(name for name in available_timezones() if "/" in name or name == "UTC"),
        "crumbs": (Crumb("Account"),),
    }
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "account/index.html", context, status=status)
