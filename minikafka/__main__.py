"""``python -m minikafka`` is the ``minikafka`` command."""

from minikafka.cli.main import main

main()
