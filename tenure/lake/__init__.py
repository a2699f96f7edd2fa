"""The history of a store as tables: Arrow schemas, and Parquet segments in a folder or a bucket."""
