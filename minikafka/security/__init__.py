"""Who a client is and what it may do: pure rules, without connections, files or clocks."""
