"""Write JSON Schemas of Kubernetes' resources, as kubeconform reads them, from the OpenAPI of Kubernetes' own source.

    python scripts/kubernetes_schemas.py kubernetes.zip schemas

The source is the Go module ``k8s.io/kubernetes``. The schemas are strict: an unknown field is an error.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any, Final

APIS: Final = {"api__v1": "v1", "apis__apps__v1": "apps-v1", "apis__policy__v1": "policy-v1"}
"""OpenAPI documents, with the end of the names that kubeconform gives to files of schemas."""
KINDS: Final = ("StatefulSet", "Service", "Secret", "PodDisruptionBudget")
"""The resources of our chart."""


def main() -> None:
    """Write one file for each resource of the APIs."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.mkdir(parents=True)
    with zipfile.ZipFile(source) as module:
        for name in module.namelist():
            api = Path(name).name.removesuffix("_openapi.json")
            if "/api/openapi-spec/v3/" in name and api in APIS:
                _write(json.loads(module.read(name)), target, APIS[api])


def _write(document: dict[str, Any], target: Path, suffix: str) -> None:
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    for name, schema in schemas.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            if kind["kind"] not in KINDS:
                continue
            reference = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
            (target / f"{kind['kind'].lower()}-{suffix}.json").write_text(json.dumps(reference), encoding="utf-8")


if __name__ == "__main__":
    main()
