# docker build --tag sensormend .
# docs/docker/compose.yaml runs it with a broker and the dashboard.
FROM python:3.13-slim AS build
# With a C compiler the wheel has the engine as machine code, for any processor of the architecture.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY src src
RUN python -m venv /opt/sensormend \
    && /opt/sensormend/bin/pip install --no-cache-dir '.[excel,kafka,live,netcdf,postgres,web]'
# Otherwise every new container would compile it for a minute.
RUN /opt/sensormend/bin/python -c "from sensormend.model.precompile import is_precompiled as done; assert done()"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data --create-home sensormend
COPY --from=build /opt/sensormend /opt/sensormend
ENV PATH=/opt/sensormend/bin:$PATH PYTHONUNBUFFERED=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
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
