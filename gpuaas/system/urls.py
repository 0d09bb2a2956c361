from django.urls import path

from gpuaas.core.metrics import metrics
from gpuaas.system import views

urlpatterns = [
    path("health/live", views.live, name="health_live"),
    path("health/ready", views.ready, name="health_ready"),
    # by the names that Kubernetes has for them
    path("healthz", views.live, name="healthz"),
    path("readyz", views.ready, name="readyz"),
    path("health/parts", views.parts, name="health_parts"),
    path("metrics", metrics, name="metrics"),
    path("metrics/portal", views.gauges, name="metrics_portal"),
]
