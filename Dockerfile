# All packages are fetched once with their hashes checked; the image gets those it runs on.
FROM python:3.13-slim AS packages
WORKDIR /src
COPY requirements.lock .
RUN pip wheel --no-cache-dir --require-hashes --requirement requirements.lock --wheel-dir /wheels
COPY pyproject.toml README.md LICENSE ./
COPY migrations migrations
COPY src src
RUN pip wheel --no-cache-dir --no-index --find-links /wheels --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=from=packages,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels opentill \
    && useradd --create-home --uid 10001 opentill \
    && install -d -o opentill -g opentill -m 700 /data
USER opentill
WORKDIR /home/opentill
ENV OPENTILL_DATA_DIR=/data \
    OPENTILL_HOST=0.0.0.0 \
    OPENTILL_PUBLIC_URL=http://localhost:8080 \
    OPENTILL_SANDBOX_HOST=0.0.0.0 \
    OPENTILL_SANDBOX_PUBLIC_URL=http://localhost:8081
VOLUME /data
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD \
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
ENTRYPOINT ["opentill"]
CMD ["serve"]
