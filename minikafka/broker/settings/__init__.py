"""A node's configuration: its settings, their sources, and its place in the cluster.

Settings are declared in `minikafka.metadata.setting_table`; here they are read from files and flags
(``config``) and combined with dynamic values (``effective``).
"""
