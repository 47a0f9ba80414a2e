USE w_open_transaction_before_the_start;
INSERT INTO t VALUES(20,20); INSERT INTO u VALUES(7,6);
-- @conn a
INSERT INTO t VALUES(11,11); DELETE FROM u WHERE v=5; COMMIT;
-- @conn main
DELETE FROM u WHERE v=1 LIMIT 2; UPDATE t SET v=0 WHERE id=10;
