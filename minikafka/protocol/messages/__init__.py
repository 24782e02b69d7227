"""One module per API: its request and its response, every version declared once."""
