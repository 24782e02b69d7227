"""The broker's shell: the only floor that knows trio, sockets and clocks."""
