"""The strategies by which a group's leader divides partitions among members."""
