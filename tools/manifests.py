"""Makes ``deploy/kubernetes/opentill.yaml`` of the chart: `make manifests`.

Rendered by Helm itself, as a library, with the values that the chart comes with. What only Helm
reads is left out. A test compares the file in the repository with what is made here.
"""

import re
from pathlib import Path
from typing import Final

import helm_python

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
CHART: Final = DEPLOY / "helm" / "opentill"
TARGET: Final = DEPLOY / "kubernetes" / "opentill.yaml"
HEAD: Final = """\
# OpenTill on Kubernetes, for `kubectl apply`. Made of the chart in deploy/helm by `make manifests`:
# change that, or this copy of yours. docs/recipes/run-on-kubernetes.md says what to do around it.
"""
_OF_HELM: Final = re.compile(
    r"^ +app\.kubernetes\.io/managed-by: Helm\n|^  annotations:\n(?: +helm\.sh/.*\n)+", re.MULTILINE
)


def rendered(values: dict[str, object] | None = None) -> dict[str, str]:
    """Return the chart's documents by template, as Helm renders them with some values."""
    with helm_python.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values or {})
        made: dict[str, str] = chart.render(values or {}, name="opentill", namespace="opentill")
    return made


def manifests() -> str:
    """Return all documents as one file."""
    texts = (text.strip() for _, text in sorted(rendered().items()))
    return HEAD + _OF_HELM.sub("", "".join(f"---\n{text}\n" for text in texts if text))


if __name__ == "__main__":
    TARGET.write_text(manifests())
