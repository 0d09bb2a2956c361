"""Pages of the console."""

urlpatterns: list[object] = []
