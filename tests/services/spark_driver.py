"""Runs inside Spark's Python: statements of SQL from standard input, answers to standard output; see engine.py."""
import datetime
import decimal
import json
import os
import sys

out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)           # whatever else is printed goes to the log


def plain(v):
    if isinstance(v, decimal.Decimal):
        return format(v, "f")
    if isinstance(v, datetime.datetime):
        return v.isoformat(" ", "microseconds")
    if isinstance(v, datetime.date):
        return v.isoformat()
    if isinstance(v, (bytes, bytearray)):
        return v.hex()
    return [plain(x) for x in v] if isinstance(v, list) else v


def main():
    from pyspark.sql import SparkSession
    spark = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if spark is None:
                spark = SparkSession.builder.getOrCreate()
                spark.sparkContext.setLogLevel("WARN")
                answer = {}
            else:
                answer = {"rows": [[plain(v) for v in row] for row in spark.sql(request["sql"]).collect()]}
        except Exception as e:          # the statement's, told to who sent it
            answer = {"error": str(e)[:4000]}
        out.write(json.dumps(answer) + "\n")
    spark.stop()


main()
