from django.urls import path

from gpuaas.core.metrics import metrics
from gpuaas.system import views

urlpatterns = [
    path("health/live", views.live, name="health_live"),
    path("health/ready", views.ready, name="health_ready"),
    path("health/parts", views.parts, name="health_parts"),
    path("metrics", metrics, name="metrics"),
    path("metrics/portal", views.gauges, name="metrics_portal"),
]
