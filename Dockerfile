# docker build --tag sensormend .
# docs/docker/compose.yaml runs it with a broker and the dashboard.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/sensormend \
    && /opt/sensormend/bin/pip install --no-cache-dir '.[excel,kafka,live,netcdf,postgres,web]'
# The engine, compiled once, for any processor: otherwise every new container would compile it for a minute.
ENV NUMBA_CACHE_DIR=/opt/sensormend/compiled NUMBA_CPU_NAME=generic OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
RUN /opt/sensormend/bin/python -c "import numpy; from sensormend import NetworkModel; NetworkModel().update(numpy.eye(4))"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home sensormend
COPY --from=build /opt/sensormend /opt/sensormend
COPY --from=build --chown=sensormend /opt/sensormend/compiled /opt/sensormend/compiled
ENV PATH=/opt/sensormend/bin:$PATH PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
    NUMBA_CACHE_DIR=/opt/sensormend/compiled NUMBA_CPU_NAME=generic
USER sensormend
WORKDIR /data
VOLUME /data
EXPOSE 8464 9464
# SIGTERM ends `watch` cleanly: a checkpoint, and ten seconds for sinks.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/healthz', timeout=4)"]
ENTRYPOINT ["sensormend"]
CMD ["--help"]
