"""Where blobs are kept: a folder, or a bucket of an S3 server."""
