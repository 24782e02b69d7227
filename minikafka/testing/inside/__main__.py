"""``python -m minikafka.testing.inside serve ...``: see the package."""

from minikafka.cli.main import main
from minikafka.testing.inside.companion import TestCompanion

main(obj=TestCompanion.from_environment())
