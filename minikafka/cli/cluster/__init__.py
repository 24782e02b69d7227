"""``minikafka cluster``: a cluster of broker processes on this machine, to be broken on purpose.

``minikafka cluster up`` (`up`) decides on nodes, ports and voters (`layout`) and becomes their
`supervisor`: it starts each node as a `process` of its own, `minikafka serve`, and never restarts
one by itself. The other commands run in processes of their own, and find the cluster by its
directory (`files`): they read `cluster.json`, signal the nodes' processes themselves, and ask the
supervisor for one thing only, to start a node (`nodes`). `status` shows the processes (`view`)
beside what the brokers report (`report`).

Only the supervisor writes `cluster.json`. Its documented fields are an interface for programs; see
docs/cluster.md. Nothing in here depends on the broker's code: a node is a command and its output.
"""
