"""What minikafka costs, measured: workloads, what they are compared with, and the runner."""
