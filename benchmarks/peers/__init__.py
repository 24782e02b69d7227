"""What the broker is compared with, under the names that measures and reports use."""

from __future__ import annotations

from typing import Final

OURS: Final = "minikafka"
APACHE: Final = "Apache Kafka"
ECHO: Final = "echo"
LIBRDKAFKA: Final = "librdkafka"
KFAKE: Final = "kfake"
