"""Who reads what: the strategies with which a group's leader divides partitions among members."""
