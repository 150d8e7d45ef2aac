-- Tell the database's time.
SELECT statement_timestamp()
