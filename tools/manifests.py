"""Generate ``deploy/kubernetes/opentill.yaml`` from the Helm chart: `make manifests`.

The Helm library renders the chart with its default values. Labels and annotations of Helm are
removed. A test compares the file in the repository with the output of this program.
"""

import re
from pathlib import Path
from typing import Final

import helm_python

DEPLOY: Final = Path(__file__).parents[1] / "deploy"
CHART: Final = DEPLOY / "helm" / "opentill"
TARGET: Final = DEPLOY / "kubernetes" / "opentill.yaml"
HEAD: Final = """\
# OpenTill on Kubernetes, for `kubectl apply`. `make manifests` generates it from the chart in
# deploy/helm: change the chart, or your own copy. docs/recipes/run-on-kubernetes.md describes it.
"""
_HELM_METADATA: Final = re.compile(
    r"^ +app\.kubernetes\.io/managed-by: Helm\n|^  annotations:\n(?: +helm\.sh/.*\n)+", re.MULTILINE
)


def render(values: dict[str, object] | None = None) -> dict[str, str]:
    """Return the chart's documents by template, rendered by Helm with the given values."""
    with helm_python.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values or {})
        documents: dict[str, str] = chart.render(
            values or {}, name="opentill", namespace="opentill"
        )
    return documents


def format_manifests() -> str:
    """Return the content of the file, with all documents."""
    texts = (text.strip() for _, text in sorted(render().items()))
    return HEAD + _HELM_METADATA.sub("", "".join(f"---\n{text}\n" for text in texts if text))


if __name__ == "__main__":
    TARGET.write_text(format_manifests())
