# The image of make image for those who build with Docker: it has the same files, since it copies what make image wrote, and
# hack/release's test holds the rest in step.
#
#   make image
#   docker buildx build --platform=linux/amd64,linux/arm64 --build-arg=VERSION=… --build-arg=REVISION=… .
FROM scratch
ARG TARGETOS TARGETARCH VERSION REVISION
COPY .cache/release/${TARGETOS}-${TARGETARCH}/rootfs/ /
LABEL org.opencontainers.image.title="function-rig" \
      org.opencontainers.image.description="Crossplane composition function that hands out Kubernetes clusters within a quota" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/rig-gateway/function-rig" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
WORKDIR /
USER 65532:65532
EXPOSE 8080/tcp 9443/tcp
ENTRYPOINT ["/usr/local/bin/function-rig"]
