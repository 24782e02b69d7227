"""Record batches to Arrow and back, without a Python operation for each record.

Kept apart from Spark: these modules know Kafka's record format, NumPy and pyarrow, nothing else.
"""
