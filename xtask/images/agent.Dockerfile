# What an agent is built in by `cross`, for either processor: see Cross.toml.
#
# Rust itself is not in it: `cross` mounts the toolchain that it is told to take, with the standard
# libraries for musl and with rust-lld, which links the agent for aarch64. The agent has no C,
# so what the image has to bring is a C library old enough for everybody who builds, and `cc`, which
# links build scripts, macros and the agent for x86_64.
FROM debian:bookworm-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
