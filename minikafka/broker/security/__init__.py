"""Security that needs files, sockets or settings: TLS contexts, SASL, authorization, quotas."""
