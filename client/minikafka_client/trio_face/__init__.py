"""The face for trio programs."""
