"""dlt_load.py PORT DATABASE FOLDER: dlt loads the table orders into Parquet files through connectorx."""
import sys

import dlt
from dlt.sources.sql_database import sql_table

port, db, folder = sys.argv[1:]
url = f"mysql://weir:weir@127.0.0.1:{port}/{db}"
orders = sql_table(credentials=url.replace("mysql", "mysql+pymysql", 1), table="orders", backend="connectorx", chunk_size=100000, backend_kwargs={"conn": url})
pipeline = dlt.pipeline("peer", destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}/files"), dataset_name=db, pipelines_dir=f"{folder}/pipelines")
pipeline.run(orders, loader_file_format="parquet", write_disposition="replace")
