"""Placeholder until the API room is furnished."""

app_name = "api"
urlpatterns: list[object] = []
