"""The style page; included only when DEBUG."""

from django.urls import path

from frontend import parts

app_name = "parts"
urlpatterns = [
    path("", parts.index, name="index"),
    path("live/", parts.sample, name="sample"),
    path("answer/", parts.accept, name="accept"),
]
