# This stage downloads all packages and checks their hashes; the image gets only the runtime packages.
ARG BASE=python:3.13-slim
FROM ${BASE} AS packages
WORKDIR /src
# With traces: --build-arg LOCK=requirements-opentelemetry.lock --build-arg EXTRA=[opentelemetry]
ARG LOCK=requirements.lock
COPY ${LOCK} .
RUN pip wheel --no-cache-dir --require-hashes --only-binary :all: \
    --requirement ${LOCK} --wheel-dir /wheels
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY migrations migrations
COPY src src
RUN pip wheel --no-cache-dir --no-index --find-links /wheels --no-deps --wheel-dir /wheels .

FROM ${BASE}
# The image runs with any user id, a read-only root file system and no capabilities. It stores data below
# /data, and nothing if the database is external and the gateways are real. The command line stores its
# login in /tmp, which must be writable, may be in memory, and ends with the container. The embedded
# PostgreSQL requires that its user id has a name: libnss-wrapper provides one, and root starts it as
# opentill-postgres. Receipts as PDF need the fonts (decision 0086):
# DejaVu has Arabic, Hebrew and Cyrillic letters, WQY MicroHei Chinese ones, IPAexGothic Japanese ones.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libnss-wrapper fonts-dejavu-core \
        fonts-ipaexfont-gothic fonts-wqy-microhei \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --no-create-home --home-dir /nonexistent --uid 10001 opentill \
    && useradd --system --user-group --no-create-home --home-dir /nonexistent opentill-postgres \
    && install -d -m 1777 /data
ARG EXTRA=
RUN --mount=from=packages,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "opentill${EXTRA}"
# https://specs.opencontainers.org/image-spec/annotations/
ARG REVISION=unknown
LABEL org.opencontainers.image.title="OpenTill" \
    org.opencontainers.image.description="Self-hosted payments for merchants" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.licenses="Apache-2.0"
USER 10001
WORKDIR /
ENV OPENTILL_DATA_DIR=/data/opentill \
    OPENTILL_HOST=0.0.0.0 \
    OPENTILL_PUBLIC_URL=http://localhost:8080 \
    OPENTILL_SANDBOX_HOST=0.0.0.0 \
    OPENTILL_SANDBOX_PUBLIC_URL=http://localhost:8081 \
    PYTHONDONTWRITEBYTECODE=1 \
    XDG_CONFIG_HOME=/tmp/config
VOLUME /data
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["opentill", "health"]
ENTRYPOINT ["opentill"]
CMD ["serve"]
