"""`manage.py cluster_class_import`: the parameters of a template, from the variables of its ClusterClass."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from gpuaas.clusters.models import ClusterTemplate
from gpuaas.clusters.services import template_parameters_import
from gpuaas.core.errors import GpuaasError
from gpuaas.core.rows import one_or_none
from tenants.actors import SYSTEM


class Command(BaseCommand):
    help = (
        "Print a template's document with the parameters of its ClusterClass. Format: "
        "docs/operators/clusters-cluster-api.md."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("template", help="slug of the template")
        parser.add_argument(
            "document", type=Path, help="file with the document, whose settings name the class"
        )

    def handle(self, **options: Any) -> None:
        template = one_or_none(
            ClusterTemplate.objects.select_related("site").filter(slug=options["template"])
        )
        if template is None:
            raise CommandError(f"there is no template {options['template']}")
        try:
            document = json.loads(options["document"].read_text(encoding="utf-8"))
            settings = document.get("settings", {})
            parameters = template_parameters_import(actor=SYSTEM, template=template, settings=settings)
        except (OSError, ValueError, AttributeError) as error:
            raise CommandError(f"{options['document']}: {error}") from error
        except GpuaasError as error:
            raise CommandError(error.message) from error
        self.stdout.write(json.dumps({**document, "parameters": parameters}, indent=1))
