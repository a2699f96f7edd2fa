"""The report: gold as one page with pictures. Needs pyarrow and matplotlib, no Spark and no Java."""
